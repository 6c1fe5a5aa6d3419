// The value of a version's record in Java with Jackson: a fixed trunk and named parts, as deploy/FORMATS.md says.
package io.streamsvm.reader;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.*;

/** A message whose shape is checked as far as a score needs it; `parts` has those that answers depend on, by their names. */
record Message(JsonNode trunk, Map<String, JsonNode> parts) {
    static final String FORMAT = "streamsvm.model/1";
    static final int MOST_EXAMPLES = 4;
    static final List<String> TRUNK = fields("format name version labels features model training stream lineage probes parts");
    static final Map<String, List<String>> MODEL = Map.of("additive", fields("kernel intercepts"),
        "linear", fields("kernel coefficients intercepts"),
        "rbf", fields("kernel gamma support_vectors dual_coefficients intercepts"));
    /** The fields of each part that an answer depends on. */
    static final Map<String, List<String>> PARTS = Map.of(
        "additive", fields("part machines"),
        "classes", fields("part scheme machines"),
        "packed", fields("part columns support_vectors whole_error error"),
        "probability", fields("part functions probes"),
        "recipe", fields("part recipe examples"),
        "threshold", fields("part value figure asked chosen met points positives precision recall alarm_rate cost"));

    /** Throw a refusal unless something holds. */
    static void must(boolean holds, String otherwise) {
        if (!holds) throw new RefusedMessage(otherwise);
    }

    /** Return a message whose every shape that a score needs is checked, or refuse it. */
    static Message opened(JsonNode trunk) {
        must(trunk.path("format").asText().equals(FORMAT), "the format is " + trunk.path("format") + ", and this reader knows " + FORMAT);
        must(trunk.path("parts").isArray(), "the message has no list `parts`");
        exactly(trunk, TRUNK, "the message");
        Map<String, JsonNode> parts = parts(trunk);
        int machines = machinesOf(trunk.get("labels"), parts.get("classes"));
        JsonNode features = trunk.get("features"), model = trunk.get("model"), probes = trunk.get("probes");
        must(trunk.get("version").isIntegralNumber() && trunk.get("version").asLong() > 0, "there is no version " + trunk.get("version"));
        exactly(features, fields("dimension names mean scale"), "features");
        String kernel = model.path("kernel").asText();
        must(MODEL.containsKey(kernel), "model has the unknown kernel " + kernel);
        exactly(model, MODEL.get(kernel), "model");
        exactly(probes, fields("x decision tolerance"), "probes");
        int dimension = features.get("dimension").asInt(), count = probes.get("x").size();
        JsonNode names = features.get("names");
        must(names.isArray() && (names.isEmpty() || names.size() == dimension), "features.names are not those of " + dimension + " features");
        must(isList(features.get("mean"), dimension) && isList(features.get("scale"), dimension), "features do not fit their dimension");
        must(isList(model.get("intercepts"), machines), "model.intercepts are not those of " + machines + " machines");
        must(!kernel.equals("linear") || isTable(model.get("coefficients"), machines, dimension), "model.coefficients do not fit");
        must(count > 0 && isTable(probes.get("x"), count, dimension), "there are no probes of these features");
        must(isTable(probes.get("decision"), count, machines) && isTable(probes.get("tolerance"), count, machines), "probes do not fit the machines");
        checkParts(parts, trunk, machines);
        return new Message(trunk, parts);
    }

    /** Return the parts of a message that answers depend on, by their names. */
    static Map<String, JsonNode> parts(JsonNode trunk) {
        Map<String, JsonNode> found = new HashMap<>();
        String before = "", wrote = trunk.path("lineage").path("build").path("streamsvm").asText();
        String remedy = wrote.isEmpty() ? "" : ". Upgrade the reader to streamsvm " + wrote + ", which wrote it, or later";
        for (JsonNode part : trunk.get("parts")) {
            String name = part.path("part").asText();
            must(part.path("part").isTextual() && !name.isEmpty(), "an entry of `parts` has no name");
            must(!name.equals(before), "the part '" + name + "' is there twice");
            must(name.compareTo(before) > 0, "the part '" + name + "' stands after '" + before + "': parts are in ascending order of their names");
            before = name;
            if (PARTS.containsKey(name)) {
                exactly(part, PARTS.get(name), "the part '" + name + "'");
                found.put(name, part);
            } else must(name.startsWith("info_"), "it has the part '" + name + "', which this reader does not know" + remedy);
        }
        return found;
    }

    /** Return how many machines these labels have. */
    private static int machinesOf(JsonNode labels, JsonNode classes) {
        int count = labels.size();
        must(labels.isArray() && count > 1, "there are no two labels");
        boolean distinct = Values.stream(labels).distinct().count() == count && Values.stream(labels).map(JsonNode::getNodeType).distinct().count() == 1;
        must(distinct, "labels mixes types, or holds the same label twice");
        must(count == 2 || classes != null, "there are " + count + " labels, but the part 'classes' is missing");
        if (classes == null) return 1;
        String scheme = classes.get("scheme").asText();
        int machines = scheme.equals("one_vs_one") ? count * (count - 1) / 2 : count;
        must(count > 2, "the part 'classes' is for more than two labels");
        must(scheme.equals("one_vs_one") || scheme.equals("one_vs_rest"), "the part 'classes' has the unknown scheme " + classes.get("scheme"));
        must(classes.get("machines").isArray() && classes.get("machines").size() == machines, "the part 'classes' has not the machines of " + count + " labels");
        return machines;
    }

    /** Refuse parts whose content cannot be used with the trunk. */
    private static void checkParts(Map<String, JsonNode> parts, JsonNode trunk, int machines) {
        boolean several = parts.containsKey("classes"), additive = parts.containsKey("additive");
        must(additive == trunk.get("model").get("kernel").asText().equals("additive"), "the part 'additive' and the kernel 'additive' belong together");
        if (additive) {
            JsonNode each = parts.get("additive").get("machines");
            must(each.isArray() && each.size() == machines, "the part 'additive' has not " + machines + " machines");
            for (JsonNode one : each) checkAdditive(one, trunk.get("features").get("dimension").asInt());
        }
        JsonNode threshold = parts.get("threshold"), recipe = parts.get("recipe"), probability = parts.get("probability");
        must(!parts.containsKey("packed") || !several && trunk.get("model").has("gamma"), "the part 'packed' is for rbf machines of two labels");
        must(threshold == null || !several && isNumber(threshold.get("value")), "the part 'threshold' has no number for two labels");
        must(recipe == null || recipe.get("recipe").path("features").isArray() && recipe.get("examples").isArray(), "the part 'recipe' has no features or no list of examples");
        if (recipe != null) {
            must(recipe.get("examples").size() <= MOST_EXAMPLES, "the part 'recipe' has more than " + MOST_EXAMPLES + " examples");
            JsonNode label = recipe.get("recipe").path("label"), labels = trunk.get("labels");
            must(!label.isObject() || (label.path("labels").isEmpty() ? labels.size() == 2 && label.path("negative").path(0).equals(labels.get(0))
                && label.path("positive").path(0).equals(labels.get(1)) : label.get("labels").equals(labels)), "the labels of the part 'recipe' are not the version's");
            must(recipe.get("recipe").equals(trunk.get("lineage").path("configuration").get("features")), "the part 'recipe' is not the one in lineage.configuration");
        }
        if (probability == null) return;
        JsonNode functions = probability.get("functions");
        must(functions.isArray() && functions.size() == machines, "the part 'probability' has not a function for each machine");
        for (JsonNode one : functions) {
            String method = one.path("method").asText(), what = "a function of the part 'probability'";
            must(method.equals("sigmoid"), what + " has the unknown method " + method);
            exactly(one, fields("method a b"), what);
            must(isNumber(one.get("a")) && isNumber(one.get("b")), what + " has no numbers");
        }
        must(isTable(probability.get("probes"), trunk.get("probes").get("x").size(), several ? trunk.get("labels").size() : 1),
            "the part 'probability' has not the probabilities of each probe");
    }

    /** Refuse curves and surfaces that do not fit the features, or whose values do not fit their knots. */
    private static void checkAdditive(JsonNode machine, int dimension) {
        exactly(machine, fields("curves surfaces"), "a machine of the part 'additive'");
        String knots = "knots of the part 'additive' are not two or more in ascending order", curve = "a curve of the part 'additive'", surface = "a surface of the part 'additive'";
        must(machine.get("curves").isArray() && machine.get("curves").size() == dimension && machine.get("surfaces").isArray(), "the part 'additive' has not the curves of " + dimension + " features");
        for (JsonNode one : machine.get("curves")) {
            exactly(one, fields("knots values"), curve);
            must(isList(one.get("knots"), 0) || isAscending(one.get("knots")), knots);
            must(isList(one.get("values"), one.get("knots").size()), curve + " has not a value for each knot");
        }
        for (JsonNode one : machine.get("surfaces")) {
            exactly(one, fields("features rows columns values"), surface);
            must(isAscending(one.get("rows")) && isAscending(one.get("columns")), knots);
            boolean fits = isList(one.get("features"), 2) && Values.stream(one.get("features")).allMatch(j -> j.isInt() && j.asInt() >= 0 && j.asInt() < dimension);
            must(fits && isTable(one.get("values"), one.get("rows").size(), one.get("columns").size()), surface + " does not fit its features or its knots");
        }
    }

    private static boolean isAscending(JsonNode knots) {
        boolean ascending = knots.size() > 1 && isList(knots, knots.size());
        for (int i = 1; ascending && i < knots.size(); i++) ascending = knots.get(i - 1).doubleValue() < knots.get(i).doubleValue();
        return ascending;
    }

    /** Refuse what lacks one of these fields. */
    static void has(JsonNode value, List<String> fields, String what) {
        for (String field : fields) must(value.has(field), what + " lacks the field " + field);
    }

    /** Refuse what is not an object of exactly these fields. */
    private static void exactly(JsonNode value, List<String> fields, String what) {
        must(value != null && value.isObject(), what + " is not an object");
        has(value, fields, what);
        value.fieldNames().forEachRemaining(field -> must(fields.contains(field), what + " has the unknown field " + field));
    }

    private static boolean isNumber(JsonNode value) {
        return value.isNumber() && Double.isFinite(value.doubleValue());
    }

    private static boolean isList(JsonNode values, int length) {
        return values.isArray() && values.size() == length && Values.stream(values).allMatch(Message::isNumber);
    }

    private static boolean isTable(JsonNode rows, int count, int width) {
        return rows.isArray() && rows.size() == count && Values.stream(rows).allMatch(row -> isList(row, width));
    }

    private static List<String> fields(String names) {
        return List.of(names.split(" "));
    }
}
