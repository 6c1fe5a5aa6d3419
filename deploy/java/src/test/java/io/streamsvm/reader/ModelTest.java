package io.streamsvm.reader;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.util.Arrays;
import java.util.stream.Stream;
import java.util.stream.StreamSupport;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestFactory;

/** The reader against what Python answers, and against the numbers of every notation. */
class ModelTest {
    @TestFactory
    Stream<DynamicTest> everyGoldenMessageAnswersAsInPython() throws IOException {
        return StreamSupport.stream(Golden.json("answers.json").get("models").spliterator(), false)
            .map(golden -> DynamicTest.dynamicTest(golden.get("model").asText(), () -> answersAsInPython(golden)));
    }

    private static void answersAsInPython(JsonNode golden) throws IOException {
        Model model = Model.read(Golden.bytes(golden.get("model").asText()));
        for (int i = 0; i < golden.get("points").size(); i++) {
            JsonNode point = golden.get("points").get(i), expected = golden.get("answers").get(i);
            if (expected.has("error")) {
                assertThrows(InvalidFeatures.class, () -> model.score(point));
                continue;
            }
            Answer answer = model.score(point);
            assertEquals(expected.get("label"), answer.label());
            close(numbers(expected.get("decision")), answer.decision());
            if (expected.has("probability")) close(numbers(expected.get("probability")), answer.probability());
            else assertNull(answer.probability());
            if (expected.has("reasons")) close(expected.get("reasons"), model.reasons(point, Math.max(1, expected.get("reasons").get("fields").size())));
            else assertThrows(UnsupportedOperationException.class, () -> model.reasons(point, 1));
        }
    }

    private static void close(JsonNode expected, Reasons found) {
        assertEquals(expected.get("fields").findValuesAsText("field"), found.fields().stream().map(Reasons.Field::field).toList());
        double[] adds = found.fields().stream().mapToDouble(Reasons.Field::adds).toArray();
        close(expected.get("fields").findValues("adds").stream().mapToDouble(JsonNode::asDouble).toArray(), adds);
        close(new double[] {expected.get("baseline").asDouble(), expected.get("rest").asDouble()}, new double[] {found.baseline(), found.rest()});
    }

    private static void close(double[] expected, double[] found) {
        assertEquals(expected.length, found.length);
        for (int k = 0; k < found.length; k++) assertEquals(expected[k], found[k], 1e-12 * Math.max(1, Math.abs(expected[k])));
    }

    private static double[] numbers(JsonNode value) {
        return value.isArray() ? Values.array(value) : new double[] {value.asDouble()};
    }

    @Test
    void numbersMeanTheSameInEveryNotationToTheBit() throws IOException {
        for (JsonNode cell : Golden.json("notations.json")) {
            ObjectNode recipe = Model.JSON.createObjectNode(), event = Model.JSON.createObjectNode();
            ObjectNode feature = recipe.putArray("features").addObject();
            feature.put("name", "a").put("as", "number").putArray("field").add("a");
            feature.putObject("missing").put("constant", 0);
            feature.setAll((ObjectNode) cell.get("options"));
            event.set("a", cell.get("value"));
            Recipe made = new Recipe(recipe);
            if (cell.get("number").isNull()) assertThrows(InvalidFeatures.class, () -> made.columns(event), cell.toString());
            else assertEquals(cell.get("number").asDouble(0), made.columns(event)[0], cell.toString());
        }
    }

    @Test
    void aChangedVersionIsRefused() throws IOException {
        byte[] value = Golden.bytes("model-1-linear.json");
        ObjectNode message = (ObjectNode) Model.JSON.readTree(value);
        ArrayNode intercepts = (ArrayNode) message.get("model").get("intercepts");
        intercepts.set(0, intercepts.get(0).asDouble() + 1);
        byte[] changed = Model.JSON.writeValueAsBytes(message);
        assertEquals("probe 0 is scored otherwise", assertThrows(RefusedMessage.class, () -> Model.read(changed)).getMessage());
        for (byte[] broken : new byte[][] {Arrays.copyOf(value, 100), {}, "[]".getBytes(), "null".getBytes()})
            assertThrows(RefusedMessage.class, () -> Model.read(broken));
    }

    @Test
    void scoresAreReadWithTheirVersionAndTheirReasons() throws IOException {
        JsonNode golden = Golden.json("answers.json").get("scores"), rows = Model.JSON.readTree(golden.get("value").asText());
        var record = new ConsumerRecord<byte[], byte[]>("scores", 0, 3, null, golden.get("value").asText().getBytes("UTF-8"));
        golden.get("headers").properties().forEach(one -> record.headers().add(new RecordHeader(one.getKey(), one.getValue().asText().getBytes())));
        Scores scores = Scores.read(record);
        assertEquals("points/3/7", scores.source());
        assertEquals(golden.get("headers").get("streamsvm.model.sha256").asText(), scores.modelSha256());
        assertEquals(rows.size(), scores.rows().size());
        for (int i = 0; i < rows.size(); i++) {
            JsonNode expected = rows.get(i);
            Scores.Row row = scores.rows().get(i);
            assertEquals(expected.get("id"), row.id());
            assertEquals(expected.get("label"), row.label());
            close(numbers(expected.get("score")), row.decision());
            close(numbers(expected.get("probability")), row.probability());
            close(expected.get("reasons"), row.reasons());
            assertEquals(expected.get("row").asInt(), row.row());
            assertEquals("pulsar@42", row.model() + "@" + row.version());
            assertEquals(expected.get("points").asLong(), row.points());
        }
        ObjectNode shadowed = rows.get(0).deepCopy();
        shadowed.putObject("shadow").put("model", "pulsar").put("version", 43).put("score", -0.5).put("label", "no");
        Scores.Row row = Scores.rows(shadowed.toString().getBytes("UTF-8"), "here").get(0);
        assertEquals(new Scores.Shadow("pulsar", 43, new Answer(new double[] {-0.5}, Model.JSON.valueToTree("no"), null)), row.shadow());
        assertEquals(rows.get(0).get("label").asText(), row.answer().labelText());
        assertNull(scores.rows().get(0).shadow());
        ((ObjectNode) shadowed.get("shadow")).remove("label");
        assertThrows(RefusedMessage.class, () -> Scores.rows(shadowed.toString().getBytes("UTF-8"), "here"));
        assertEquals(1, Scores.rows(rows.get(0).toString().getBytes("UTF-8"), "here").size());
        for (byte[] broken : new byte[][] {null, "[1]".getBytes(), "{".getBytes()})
            assertTrue(assertThrows(RefusedMessage.class, () -> Scores.rows(broken, "here")).getMessage().contains("here"));
    }
}
