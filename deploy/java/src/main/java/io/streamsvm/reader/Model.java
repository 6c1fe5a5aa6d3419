package io.streamsvm.reader;

import com.fasterxml.jackson.databind.*;
import com.fasterxml.jackson.databind.node.DoubleNode;
import java.io.IOException;
import java.nio.*;
import java.nio.charset.StandardCharsets;
import java.util.*;
import java.util.stream.IntStream;

/** A version that scores its own probes as it says. Thread-safe: nothing of it changes once it is read. */
public final class Model {
    static final ObjectMapper JSON = new ObjectMapper();
    private static final double LEAST = 1e-9, PROBABILITY_TOLERANCE = 1e-8;
    /** A tolerance is so much of the size of a machine's terms, rounded; expanding a squared distance counts more. */
    private static final double LARGEST_TOLERANCE = 1.02e-9, EXPANSION = 1e-5;

    private final Message message;
    private final String sha256;
    private final Machines machines;
    private final Recipe recipe;
    private final boolean oneVsOne;
    private final List<String> names, fields;

    private Model(Message message, String sha256) throws IOException {
        this.message = message;
        this.sha256 = sha256;
        names = Values.stream(message.trunk().get("features").get("names")).map(JsonNode::asText).toList();
        machines = Machines.of(message);
        oneVsOne = message.parts().get("classes") != null && message.parts().get("classes").get("scheme").asText().equals("one_vs_one");
        checkProbes();
        recipe = message.parts().get("recipe") == null ? null : Recipe.checked(message);
        List<String> columns = names.isEmpty() ? IntStream.range(0, machines.mean.length).mapToObj(j -> "x[" + j + "]").toList() : names;
        fields = recipe != null ? recipe.fields : columns;
    }

    /**
     * Read the value of a version's record.
     *
     * @throws RefusedMessage if it is not a version of format 1, or scores its own probes otherwise here
     */
    public static Model read(byte[] value) {
        try {
            JsonNode trunk = JSON.readTree(value);
            if (trunk == null || !trunk.isObject()) throw new RefusedMessage("the value is not a JSON object");
            return new Model(Message.opened(trunk), sha256(value));
        } catch (IOException fault) {
            throw new RefusedMessage("the value cannot be read: " + fault.getMessage());
        }
    }

    /** The name of the model. */
    public String name() {
        return message.trunk().get("name").asText();
    }

    /** The number of the version. */
    public int version() {
        return message.trunk().get("version").asInt();
    }

    /** The SHA-256 of the version's value, in hexadecimal. */
    public String sha256() {
        return sha256;
    }

    /** The labels, as the records have them. */
    public List<JsonNode> labels() {
        return Values.stream(message.trunk().get("labels")).toList();
    }

    /**
     * What a point or an event is read for.
     *
     * @param path such as card.country, or the name of a feature
     * @param kind number, category, hash, flag or time
     * @param required whether a point or an event without it is refused
     */
    public record Field(String path, String kind, boolean required) {}

    /** The fields that an event must or may have; of a version without a recipe its features. */
    public List<Field> fields() {
        return recipe != null ? recipe.needed() : fields.stream().map(name -> new Field(name, "number", true)).toList();
    }

    /** Whether the version learned raw events: an object is then an event. */
    public boolean takesEvents() {
        return recipe != null;
    }

    /** Score the features of a point, in the version's order; throws {@link InvalidFeatures}. */
    public Answer score(double... features) {
        int expected = machines.mean.length;
        if (features.length != expected) throw new InvalidFeatures(expected + " features expected, " + features.length + " given");
        for (int j = 0; j < expected; j++)
            if (!Double.isFinite(features[j]))
                throw new InvalidFeatures(entry(j) + " is " + Values.shown(DoubleNode.valueOf(features[j])) + "; a feature must be a finite number");
        return answer(machines.values(features));
    }

    /**
     * Score a point: an array of its features or an object with their names; or a raw event where the version takes events.
     *
     * @throws InvalidFeatures if it cannot be scored
     */
    public Answer score(JsonNode point) {
        return score(columns(point));
    }

    /**
     * The same of values of Java: numbers, booleans, texts, enums (by name), times of java.time, maps, collections, arrays,
     * Optional. A float counts as the decimal that its text is. What a feature is made of and is none of these is refused.
     */
    public Answer score(Map<String, ?> point) {
        return score(Values.of(point, 0));
    }

    /** The same of JSON. */
    public Answer score(String json) {
        return score(json.getBytes(StandardCharsets.UTF_8));
    }

    /** The same of JSON in UTF-8, such as a record's value. */
    public Answer score(byte[] json) {
        return score(Values.parsed(json));
    }

    /**
     * Return the {@code most} fields that add most to the decision value of a point or a raw event.
     *
     * @throws UnsupportedOperationException if the version has the kernel rbf, or more than two labels
     * @throws InvalidFeatures if the point cannot be scored
     */
    public Reasons reasons(JsonNode point, int most) {
        if (machines.support != null || machines.intercepts.length > 1)
            throw new UnsupportedOperationException("reasons are of linear and additive versions of two labels; for a kernel ask how much each field matters by permutation");
        double[] x = columns(point);
        score(x); // which refuses what cannot be scored
        Map<String, Double> adds = new LinkedHashMap<>();
        double[] terms = machines.terms(machines.scaled(x))[0];
        for (int j = 0; j < terms.length; j++) adds.merge(field(j), terms[j] * machines.weights[0][j], Double::sum);
        List<Reasons.Field> all = new ArrayList<>();
        adds.forEach((field, value) -> all.add(new Reasons.Field(field, value)));
        all.sort(Comparator.comparingDouble(one -> -Math.abs(one.adds())));
        List<Reasons.Field> largest = all.stream().limit(most).filter(one -> one.adds() != 0).toList();
        return new Reasons(machines.intercepts[0], largest, all.stream().skip(most).mapToDouble(Reasons.Field::adds).sum());
    }

    /** The same of values of Java, as {@link #score(Map)} takes them. */
    public Reasons reasons(Map<String, ?> point, int most) {
        return reasons(Values.of(point, 0), most);
    }

    /** Return the columns of a raw event where the version has a recipe, else a point's features in the model's order. */
    private double[] columns(JsonNode point) {
        if (recipe != null && point.isObject()) return recipe.columns(point);
        if (!point.isObject() && !point.isArray()) throw new InvalidFeatures(machines.mean.length + " features expected, " + Values.shown(point) + " given");
        List<JsonNode> values = point.isObject() ? byName(point) : Values.stream(point).toList();
        for (int j = 0; j < values.size(); j++)
            if (!values.get(j).isNumber()) throw Values.wrong(entry(j), values.get(j), "a number");
        return values.stream().mapToDouble(Values::real).toArray();
    }

    private List<JsonNode> byName(JsonNode point) {
        if (names.isEmpty()) throw new InvalidFeatures("the version has no feature names, so a name cannot be matched to its features");
        List<String> missing = names.stream().filter(name -> !point.has(name)).toList(), unknown = new ArrayList<>();
        point.fieldNames().forEachRemaining(name -> { if (!names.contains(name)) unknown.add(name); });
        String faults = (missing.isEmpty() ? "" : "; missing " + Values.listed(missing)) + (unknown.isEmpty() ? "" : "; unknown " + Values.listed(unknown));
        if (!faults.isEmpty()) throw new InvalidFeatures("the names do not match the version's " + names.size() + " features: " + faults.substring(2));
        return names.stream().map(point::get).toList();
    }

    /** Return the field of a column, or beyond them the two of a surface. */
    private String field(int j) {
        if (j < fields.size()) return fields.get(j);
        int[] pair = machines.additives.get(0).surfaces().get(j - fields.size()).features();
        return fields.get(pair[0]) + " & " + fields.get(pair[1]);
    }

    private String entry(int j) {
        return j < names.size() ? Values.quoted(names.get(j)) : "x[" + j + "]";
    }

    private Answer answer(double[] values) {
        if (Arrays.stream(values).anyMatch(Double::isNaN)) throw new InvalidFeatures("the point has no score, because a feature is too large");
        JsonNode threshold = message.parts().get("threshold"), labels = message.trunk().get("labels");
        double[] decision = message.parts().get("classes") == null ? values : labelValues(values);
        double border = threshold == null ? 0 : threshold.get("value").asDouble();
        int greatest = 0;
        for (int k = 1; k < decision.length; k++) if (decision[k] > decision[greatest]) greatest = k;
        JsonNode label = labels.get(decision.length > 1 ? greatest : decision[0] > border ? 1 : 0);
        return new Answer(decision, label, message.parts().get("probability") == null ? null : probabilities(values));
    }

    /** Return the decision values of the labels by those of the machines. One against one: votes, and less than a third of one. */
    private double[] labelValues(double[] values) {
        if (!oneVsOne) return values;
        int labels = message.trunk().get("labels").size();
        double[] votes = new double[labels], sums = new double[labels];
        for (int i = 0, m = 0; i < labels; i++) for (int j = i + 1; j < labels; j++, m++) {
            votes[values[m] > 0 ? j : i]++;
            sums[j] += values[m];
            sums[i] -= values[m];
        }
        for (int k = 0; k < labels; k++) votes[k] += sums[k] / (3 * Math.abs(sums[k]) + 3);
        return votes;
    }

    /** Return the probability of each label, or of the second of two, at the decision values of the machines. */
    private double[] probabilities(double[] values) {
        JsonNode functions = message.parts().get("probability").get("functions");
        double[] each = new double[values.length];
        for (int m = 0; m < values.length; m++) {
            JsonNode function = functions.get(m);
            each[m] = 1 / (1 + Math.exp(function.get("a").asDouble() * values[m] + function.get("b").asDouble()));
        }
        if (message.parts().get("classes") == null) return each;
        if (oneVsOne) each = coupled(each, message.trunk().get("labels").size());
        double total = Arrays.stream(each).sum();
        for (int k = 0; k < each.length; k++) each[k] = total > 0 ? each[k] / total : 1.0 / each.length;
        return each;
    }

    /** Return the shares of the labels, not yet of sum 1, by the probabilities of the pairs. */
    private static double[] coupled(double[] pairs, int labels) {
        double[] inverse = new double[labels];
        Arrays.fill(inverse, 2 - labels);
        for (int i = 0, m = 0; i < labels; i++) for (int j = i + 1; j < labels; j++, m++) {
            double r = Math.min(Math.max(pairs[m], LEAST), 1 - LEAST);
            inverse[j] += 1 / r;
            inverse[i] += 1 / (1 - r);
        }
        return Arrays.stream(inverse).map(sum -> 1 / sum).toArray();
    }

    /** Refuse a version whose probes get other decision values or probabilities here. */
    private void checkProbes() {
        JsonNode probes = message.trunk().get("probes"), probability = message.parts().get("probability");
        for (int i = 0; i < probes.get("x").size(); i++) {
            double[] x = Values.array(probes.get("x").get(i)), found = machines.values(x), sizes = machines.sizes(x);
            double[] given = Values.array(probes.get("decision").get(i)), allowed = Values.array(probes.get("tolerance").get(i));
            for (int k = 0; k < found.length; k++) {
                Message.must(Math.abs(found[k] - given[k]) <= allowed[k], "probe " + i + " is scored otherwise");
                Message.must(allowed[k] <= LARGEST_TOLERANCE * sizes[k], "probe " + i + " has a tolerance that is too large");
            }
            if (probability == null) continue;
            double[] shares = probabilities(given), expected = Values.array(probability.get("probes").get(i));
            for (int k = 0; k < shares.length; k++)
                Message.must(Math.abs(shares[k] - expected[k]) <= PROBABILITY_TOLERANCE, "probe " + i + " has another probability in the part 'probability'");
        }
    }

    static String sha256(byte[] value) {
        return HexFormat.of().formatHex(Values.digest(value));
    }

    /** The name and the number: name@number. */
    String key() {
        return name() + "@" + version();
    }

    @Override
    public String toString() {
        return "Model(" + key() + ", " + machines.mean.length + " features, " + message.trunk().get("model").get("kernel").asText() + ")";
    }

    /** What makes a decision value for each machine from raw features; {@code support} is null but of rbf ones, {@code additives} but of those. */
    private record Machines(double[] mean, double[] scale, double[] intercepts, double[][] weights, double[] support, double gamma, List<Additive> additives) {
        static Machines of(Message message) throws IOException {
            JsonNode features = message.trunk().get("features"), model = message.trunk().get("model");
            double[] mean = Values.array(features.get("mean")), intercepts = Values.array(model.get("intercepts"));
            double[][] weights = new double[intercepts.length][];
            if (message.parts().containsKey("additive")) {
                List<Additive> additives = Values.stream(message.parts().get("additive").get("machines")).map(Additive::of).toList();
                for (int k = 0; k < weights.length; k++) {
                    weights[k] = new double[additives.get(k).curves().size() + additives.get(k).surfaces().size()];
                    Arrays.fill(weights[k], 1);
                }
                return new Machines(mean, Values.array(features.get("scale")), intercepts, weights, null, 0, additives);
            }
            boolean linear = model.get("kernel").asText().equals("linear");
            JsonNode packed = message.parts().get("packed");
            double[] dual = linear ? null : floats(model, "dual_coefficients", packed != null ? 32 : 64);
            double[] support = linear ? null : packed != null ? unpacked(model, packed.get("columns"), mean.length, dual.length)
                : floats(model, "support_vectors", 64);
            int width = linear ? mean.length : support.length / mean.length;
            Message.must(linear || support.length == width * mean.length && dual.length == width * intercepts.length,
                "model.support_vectors do not fit model.dual_coefficients");
            for (int k = 0; k < weights.length; k++)
                weights[k] = linear ? Values.array(model.get("coefficients").get(k)) : Arrays.copyOfRange(dual, k * width, (k + 1) * width);
            return new Machines(mean, Values.array(features.get("scale")), intercepts, weights, support, linear ? 0 : model.get("gamma").asDouble(), null);
        }

        double[] values(double[] x) {
            double[] sums = intercepts.clone();
            double[][] terms = terms(scaled(x));
            for (int k = 0; k < sums.length; k++) for (int i = 0; i < weights[k].length; i++) sums[k] += weights[k][i] * terms[k][i];
            return sums;
        }

        /** Return the size of the terms that each machine's value is summed of. */
        double[] sizes(double[] x) {
            double[] scaled = scaled(x), sums = new double[intercepts.length], origin = new double[x.length];
            double[][] terms = terms(scaled);
            double longest = support == null ? 0 : IntStream.range(0, weights[0].length).mapToDouble(i -> distance(origin, i)).max().orElse(0);
            double size = support == null ? 1 : 1 + EXPANSION * gamma * (Arrays.stream(scaled).map(one -> one * one).sum() + longest);
            for (int k = 0; k < sums.length; k++) {
                for (int i = 0; i < weights[k].length; i++) sums[k] += Math.abs(weights[k][i] * terms[k][i]) * size;
                sums[k] += Math.abs(intercepts[k]);
            }
            return sums;
        }

        private double[] scaled(double[] x) {
            return IntStream.range(0, x.length).mapToDouble(j -> (x[j] - mean[j]) / scale[j]).toArray();
        }

        /** Return what each machine's weights are multiplied with: what it reads of scaled features; of all the same, these, or the kernel of each support vector. */
        private double[][] terms(double[] scaled) {
            if (additives != null) return additives.stream().map(one -> one.terms(scaled)).toArray(double[][]::new);
            double[] same = support == null ? scaled : IntStream.range(0, weights[0].length).mapToDouble(i -> Math.exp(-gamma * distance(scaled, i))).toArray();
            return Collections.nCopies(weights.length, same).toArray(double[][]::new);
        }

        /** Return the squared distance to a support vector. */
        private double distance(double[] scaled, int vector) {
            double distance = 0;
            for (int j = 0; j < scaled.length; j++) {
                double difference = scaled[j] - support[vector * scaled.length + j];
                distance += difference * difference;
            }
            return distance;
        }

        /** Return so many support vectors that are places on the grids of columns: the value at a place is low + place * step. */
        private static double[] unpacked(JsonNode model, JsonNode columns, int d, int count) throws IOException {
            Message.must(columns.isArray() && columns.size() == d, "the part 'packed' has no columns of these features");
            double[] low = new double[d], step = new double[d];
            int[] bits = new int[d];
            long all = 0;
            for (int j = 0; j < d; j++) {
                JsonNode column = columns.get(j);
                boolean isGrid = column.size() == 3 && column.get(0).isNumber() && column.get(1).asDouble() > 0 && column.get(2).isInt();
                bits[j] = isGrid ? column.get(2).asInt() : -1;
                Message.must(bits[j] >= 0 && bits[j] <= 16, "the part 'packed' has no columns of these features");
                low[j] = column.get(0).asDouble();
                step[j] = column.get(1).asDouble();
                all += bits[j];
            }
            byte[] raw = model.get("support_vectors").binaryValue();
            long each = (all + 7) / 8;
            Message.must(raw != null && raw.length == count * each, "model.support_vectors does not fit model.dual_coefficients");
            Message.must((long) count * d <= 1 << 26, "model.support_vectors has too many entries");
            double[] support = new double[count * d];
            for (int i = 0, k = 0; i < count; i++) {
                long bit = 8 * i * each;
                for (int j = 0; j < d; j++) {
                    int place = 0;
                    for (int at = 0; at < bits[j]; at++, bit++) place |= (raw[(int) (bit >> 3)] >> (bit & 7) & 1) << at;
                    support[k++] = low[j] + place * step[j];
                }
            }
            return support;
        }

        /** Return the numbers of so many bits that a field of the model has in base64, little-endian. */
        private static double[] floats(JsonNode model, String field, int bits) throws IOException {
            byte[] raw = model.get(field).binaryValue();
            Message.must(raw != null, "model." + field + " is not text in base64");
            Message.must(raw.length % (bits / 8) == 0, "model." + field + " has " + raw.length + " bytes, which are not numbers of " + bits + " bits");
            ByteBuffer bytes = ByteBuffer.wrap(raw).order(ByteOrder.LITTLE_ENDIAN);
            double[] values = new double[raw.length / (bits / 8)];
            for (int i = 0; i < values.length; i++) values[i] = bits == 32 ? bytes.getFloat() : bytes.getDouble();
            return values;
        }
    }
}
