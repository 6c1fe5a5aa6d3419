// A subscriber of the model topic in Java (kafka-clients, Jackson): it follows `current`, or the pin if there is one,
// takes no version whose SHA-256, probes or signature are wrong, and prints one line of JSON for each that it serves.
//
//     javac -d classes -cp 'jars/*' Subscriber.java Features.java Message.java
//     java -cp 'classes:jars/*' Subscriber BOOTSTRAP MODELS_TOPIC NAME POINTS.json [PUBLIC_KEYS.pem]
// With public keys (Ed25519) it takes only versions that one of them signed.
// POINTS.json is an array of raw feature vectors, or of raw events where versions have recipes; each line has the decision
// value of each.
//
//     java -cp 'classes:jars/*' Subscriber --check POINTS.json MODEL.json...
// prints a line of JSON for each value of a version's record: what it makes of each point, which may be an object of names,
// too, or why nothing; or why the value is refused. Of more than two labels each decision is an array, a value for each.
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.File;
import java.nio.*;
import java.nio.file.*;
import java.security.*;
import java.security.spec.X509EncodedKeySpec;
import java.time.Duration;
import java.util.*;
import java.util.function.Function;
import org.apache.kafka.clients.consumer.*;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

public class Subscriber {
    static final ObjectMapper JSON = new ObjectMapper();

    public static void main(String[] args) throws Exception {
        if (args[0].equals("--check")) {
            for (String file : Arrays.asList(args).subList(2, args.length))
                System.out.println(JSON.writeValueAsString(answers(JSON.readTree(new File(file)), JSON.readTree(new File(args[1])))));
            return;
        }
        String models = args[1], name = args[2], serving = "";
        JsonNode points = JSON.readTree(new File(args[3]));
        List<PublicKey> keys = args.length > 4 ? keys(Files.readString(Path.of(args[4]))) : null;
        Map<String, Object> options = Map.of("bootstrap.servers", args[0], "isolation.level", "read_committed");
        TopicPartition versions = new TopicPartition(models, 0), aliases = new TopicPartition(models + ".aliases", 0);
        Map<String, JsonNode> named = new HashMap<>();
        try (Consumer<byte[], byte[]> follower = reader(options, aliases); Consumer<byte[], byte[]> fetcher = reader(options, versions)) {
            follower.seekToBeginning(List.of(aliases));
            while (true) {
                boolean newer = false;
                for (var record : follower.poll(Duration.ofMillis(100))) {
                    named.put(new String(record.key()), record.value() == null ? null : JSON.readTree(record.value()));
                    newer |= new String(record.key()).equals(name + "@head");
                }
                JsonNode pin = named.get(name + "@current#pin"), wanted = pin != null ? pin : named.get(name + "@current");
                JsonNode head = named.get(name + "@head"); // says of the newest version why it is not current
                if (wanted == null && newer && head != null && head.hasNonNull("gate"))
                    System.err.println("waiting for " + name + "@current: version " + head.get("number") + " was held back, because " + head.get("gate").get("why").asText());
                if (wanted == null || follower.currentLag(aliases).orElse(1) > 0 || wanted.get("sha256").asText().equals(serving)) continue;
                fetcher.seek(versions, wanted.get("offset").asLong());
                for (var record : fetcher.poll(Duration.ofSeconds(5))) {
                    if (record.offset() != wanted.get("offset").asLong()) continue;
                    serving = wanted.get("sha256").asText();
                    try {
                        serve(record, wanted, name, points, keys);
                    } catch (Message.Refusal refusal) {
                        System.err.println("refused " + name + "@" + wanted.get("number") + ": " + refusal.getMessage());
                    }
                }
            }
        }
    }

    static Consumer<byte[], byte[]> reader(Map<String, Object> options, TopicPartition partition) {
        var consumer = new KafkaConsumer<>(options, new ByteArrayDeserializer(), new ByteArrayDeserializer());
        consumer.assign(List.of(partition));
        return consumer;
    }

    static List<PublicKey> keys(String pems) throws Exception {
        List<PublicKey> keys = new ArrayList<>();
        for (String part : pems.split("-----END PUBLIC KEY-----")) {
            String[] body = part.split("-----BEGIN PUBLIC KEY-----");
            if (body.length == 2) keys.add(KeyFactory.getInstance("Ed25519").generatePublic(
                new X509EncodedKeySpec(Base64.getMimeDecoder().decode(body[1]))));
        }
        return keys;
    }

    /** Tell whether one of the keys signed a version of this key and SHA-256. */
    static boolean signed(ConsumerRecord<byte[], byte[]> record, String key, String sha256, List<PublicKey> keys) throws Exception {
        var header = record.headers().lastHeader("streamsvm.signature");
        byte[] signature = header == null ? new byte[64] : Base64.getDecoder().decode(header.value());
        for (PublicKey one : keys) {
            Signature verifier = Signature.getInstance("Ed25519");
            verifier.initVerify(one);
            verifier.update(("streamsvm.model.signature/1\n" + key + "\n" + sha256 + "\n").getBytes());
            if (signature.length == 64 && verifier.verify(signature)) return true;
        }
        return false;
    }

    /** Print the scores of a version that is what the alias names and scores its own probes as it says. */
    static void serve(ConsumerRecord<byte[], byte[]> record, JsonNode alias, String name, JsonNode points, List<PublicKey> keys)
            throws Exception {
        String found = HexFormat.of().formatHex(MessageDigest.getInstance("SHA-256").digest(record.value()));
        String header = new String(record.headers().lastHeader("streamsvm.sha256").value());
        Message.must(found.equals(alias.get("sha256").asText()) && found.equals(header), "the SHA-256 is " + found);
        String key = name + "@" + alias.get("number");
        Message.must(keys == null || signed(record, key, found, keys), "it is signed by none of the trusted keys");
        Message message = Message.opened(JSON.readTree(record.value()));
        Message.must(message.get("name").asText().equals(name) && message.get("version").equals(alias.get("number")), "it is not what was asked for");
        Function<double[], double[]> machine = probed(message);
        Features recipe = message.part("recipe") != null ? Features.checked(message) : null;
        List<Object> decision = new ArrayList<>();
        for (JsonNode point : points) {
            try {
                decision.add(told(machine.apply(columns(point, message, recipe))));
            } catch (IllegalArgumentException rejection) {
                decision.add(null);
            }
        }
        System.out.println(JSON.writeValueAsString(Map.of("version", message.get("version"), "sha256", found, "decision", decision)));
    }

    /** Return the score of each point, or why it has none; or why the value is refused. */
    static Object answers(JsonNode value, JsonNode points) throws Exception {
        try {
            Message message = Message.opened(value);
            Function<double[], double[]> machine = probed(message);
            Features recipe = message.part("recipe") != null ? Features.checked(message) : null;
            List<Object> answers = new ArrayList<>();
            for (JsonNode x : points) answers.add(answer(x, message, machine, recipe));
            return answers;
        } catch (Message.Refusal refusal) {
            return Map.of("refused", refusal.getMessage());
        }
    }

    static Object answer(JsonNode x, Message message, Function<double[], double[]> machine, Features recipe) {
        try {
            double[] decision = machine.apply(columns(x, message, recipe));
            return Map.of("decision", told(decision), "label", label(message, decision));
        } catch (IllegalArgumentException rejection) {
            return Map.of("error", rejection.getMessage());
        }
    }

    /** Return the label of a decision: the second one above the threshold, where there is that part; or that of the greatest. */
    static JsonNode label(Message message, double[] decision) {
        double threshold = message.part("threshold") == null ? 0 : message.part("threshold").get("value").asDouble();
        int greatest = 0;
        for (int k = 1; k < decision.length; k++) if (decision[k] > decision[greatest]) greatest = k;
        return message.get("labels").get(decision.length > 1 ? greatest : decision[0] > threshold ? 1 : 0);
    }

    /** Return a decision as it is printed: a number of two labels, an array of more. */
    static Object told(double[] decision) {
        return decision.length > 1 ? decision : decision[0];
    }

    /** Return the machine of a message that scores its own probes as it says. */
    static Function<double[], double[]> probed(Message message) throws Exception {
        Function<double[], double[]> machine = machine(message);
        JsonNode probes = message.get("probes");
        double[][] x = JSON.convertValue(probes.get("x"), double[][].class);
        for (int i = 0; i < x.length; i++) {
            double[] found = machine.apply(x[i]), given = Features.array(probes.get("decision").get(i)), allowed = Features.array(probes.get("tolerance").get(i));
            for (int k = 0; k < found.length; k++)
                Message.must(Math.abs(found[k] - given[k]) <= allowed[k], "probe " + i + " is scored otherwise");
        }
        int labels = message.get("labels").size();
        JsonNode classes = message.part("classes");
        return classes != null && classes.get("scheme").asText().equals("one_vs_one") ? point -> labelValues(machine.apply(point), labels) : machine;
    }

    /** Return the decision values of the labels by those of the machines of one against one: votes, and less than a third of one. */
    static double[] labelValues(double[] values, int labels) {
        double[] votes = new double[labels], sums = new double[labels];
        for (int i = 0, m = 0; i < labels; i++) for (int j = i + 1; j < labels; j++, m++) {
            votes[values[m] > 0 ? j : i]++;
            sums[j] += values[m];
            sums[i] -= values[m];
        }
        for (int k = 0; k < labels; k++) votes[k] += sums[k] / (3 * Math.abs(sums[k]) + 3);
        return votes;
    }

    /** Return the columns of a raw event where the version has a recipe, else a point's features. */
    static double[] columns(JsonNode x, Message message, Features recipe) {
        return recipe != null && x.isObject() ? recipe.columns(x) : ordered(x, message.get("features"));
    }

    /** Return a point's features in the model's order, given as an array or as an object of names. */
    static double[] ordered(JsonNode x, JsonNode features) {
        List<String> names = new ArrayList<>(), missing = new ArrayList<>(), unknown = new ArrayList<>();
        features.get("names").forEach(name -> names.add(name.asText()));
        List<JsonNode> values = new ArrayList<>();
        if (x.isObject()) {
            if (names.isEmpty()) throw new IllegalArgumentException("the version names no features: give an array");
            for (String name : names) if (x.has(name)) values.add(x.get(name)); else missing.add(name);
            x.fieldNames().forEachRemaining(name -> { if (!names.contains(name)) unknown.add(name); });
            if (!missing.isEmpty() || !unknown.isEmpty())
                throw new IllegalArgumentException("the names are not the version's features: missing " + missing + ", unknown " + unknown);
        } else x.forEach(values::add);
        double[] found = new double[values.size()];
        for (int i = 0; i < found.length; i++) {
            if (values.get(i).isNumber()) found[i] = values.get(i).asDouble();
            if (!values.get(i).isNumber() || !Double.isFinite(found[i]))
                throw new IllegalArgumentException((names.isEmpty() ? "x[" + i + "]" : i < names.size() ? names.get(i) : "x[" + i + "]")
                    + " is " + values.get(i) + ", and a feature must be a finite number");
        }
        return found;
    }

    /** Return the decision function of a message: raw features in, a number for each machine out. */
    static Function<double[], double[]> machine(Message message) throws Exception {
        JsonNode features = message.get("features"), model = message.get("model");
        double[] mean = JSON.convertValue(features.get("mean"), double[].class), scale = JSON.convertValue(features.get("scale"), double[].class);
        boolean linear = model.get("kernel").asText().equals("linear");
        boolean half = message.part("half_precision") != null;
        double[] intercepts = Features.array(model.get("intercepts")), support = linear ? null : floats(model, "support_vectors", half ? 16 : 64);
        double gamma = linear ? 0 : model.get("gamma").asDouble();
        int width = linear ? mean.length : support.length / mean.length;
        double[][] weights = new double[intercepts.length][];
        double[] dual = linear ? null : floats(model, "dual_coefficients", half ? 32 : 64);
        Message.must(linear || support.length == width * mean.length && dual.length == width * intercepts.length,
            "model.support_vectors do not fit model.dual_coefficients");
        for (int k = 0; k < weights.length; k++)
            weights[k] = linear ? Features.array(model.get("coefficients").get(k)) : Arrays.copyOfRange(dual, k * width, (k + 1) * width);
        return x -> {
            if (x.length != mean.length) throw new IllegalArgumentException(mean.length + " features expected, " + x.length + " given");
            for (double value : x) if (!Double.isFinite(value)) throw new IllegalArgumentException("a feature is " + value);
            double[] sums = intercepts.clone();
            for (int i = 0; i < width; i++) {
                double distance = 0;
                for (int j = 0; !linear && j < mean.length; j++) distance += Math.pow((x[j] - mean[j]) / scale[j] - support[i * mean.length + j], 2);
                double term = linear ? (x[i] - mean[i]) / scale[i] : Math.exp(-gamma * distance);
                for (int k = 0; k < sums.length; k++) sums[k] += weights[k][i] * term;
            }
            return sums;
        };
    }

    /** Return the numbers of so many bits that a field of the model has in base64, little-endian. */
    static double[] floats(JsonNode model, String field, int bits) throws Exception {
        ByteBuffer bytes = ByteBuffer.wrap(model.get(field).binaryValue()).order(ByteOrder.LITTLE_ENDIAN);
        Message.must(bytes.remaining() % (bits / 8) == 0, "model." + field + " has " + bytes.remaining() + " bytes, which are not numbers of " + bits + " bits");
        double[] values = new double[bytes.remaining() / (bits / 8)];
        for (int i = 0; i < values.length; i++)
            values[i] = bits == 16 ? half(bytes.getShort() & 0xffff) : bits == 32 ? bytes.getFloat() : bytes.getDouble();
        return values;
    }

    /** Return the number of the 16 bits of a float16. */
    static double half(int bits) {
        int exponent = bits >> 10 & 31, rest = bits & 1023;
        double size = exponent > 0 ? Math.scalb(1 + rest / 1024.0, exponent - 15) : Math.scalb((double) rest, -24);
        return bits >> 15 > 0 ? -size : size;
    }
}
