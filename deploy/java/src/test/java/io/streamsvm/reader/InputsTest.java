package io.streamsvm.reader;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.File;
import java.io.IOException;
import java.math.BigDecimal;
import java.math.BigInteger;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.time.Instant;
import java.time.LocalDate;
import java.time.LocalDateTime;
import java.time.OffsetDateTime;
import java.time.ZonedDateTime;
import java.util.Arrays;
import java.util.Date;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.stream.Stream;
import java.util.stream.StreamSupport;
import org.apache.avro.Conversions;
import org.apache.avro.Schema;
import org.apache.avro.data.TimeConversions;
import org.apache.avro.generic.GenericData;
import org.apache.avro.generic.GenericDatumReader;
import org.apache.avro.generic.GenericDatumWriter;
import org.apache.avro.generic.GenericRecord;
import org.apache.avro.io.DecoderFactory;
import org.apache.avro.io.EncoderFactory;
import org.apache.avro.util.Utf8;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestFactory;

/** Values of Java, JSON and Avro as events; what is refused, in the words of Python. */
class InputsTest {
    private static final String RECIPE = "{\"features\": [{\"name\": \"a\", \"as\": \"number\", \"field\": [\"a\"]},"
        + "{\"name\": \"c\", \"as\": \"hash\", \"bits\": 4, \"field\": [\"c\"], \"missing\": \"indicator\"},"
        + "{\"name\": \"t\", \"as\": \"time\", \"field\": [\"t\"], \"parts\": [\"hour\"], \"missing\": {\"constant\": \"2026-01-31\"}},"
        + "{\"name\": \"u\", \"as\": \"time\", \"format\": \"ms\", \"field\": [\"u\"], \"parts\": [\"age\"], \"since\": [\"v\"], \"missing\": \"indicator\"},"
        + "{\"name\": \"i\", \"as\": \"number\", \"field\": [\"list\", 1, \"x\"], \"missing\": {\"constant\": 0}}]}";
    private static JsonNode contract;
    private static Recipe recipe;

    @BeforeAll
    static void read() throws IOException {
        contract = Model.JSON.readTree(new File(System.getProperty("contract"), "inputs.json"));
        recipe = new Recipe(Model.JSON.readTree(RECIPE));
    }

    private static double[] columns(Map<String, ?> event) {
        return recipe.columns(Values.of(event, 0));
    }

    private static double[] columns(String json) {
        return recipe.columns(Values.parsed(json.getBytes(StandardCharsets.UTF_8)));
    }

    private static void refused(String why, Map<String, ?> event) {
        assertEquals(why, assertThrows(InvalidFeatures.class, () -> columns(event)).getMessage());
    }

    @TestFactory
    Stream<DynamicTest> whatIsRefusedIsRefusedInTheWordsOfPython() {
        Recipe made = new Recipe(contract.get("recipe"));
        made.columns(contract.get("event"));
        return StreamSupport.stream(contract.get("rejected").spliterator(), false).map(row -> DynamicTest.dynamicTest(row.get("given").asText(), () -> {
            ObjectNode event = contract.get("event").deepCopy();
            event.setAll((ObjectNode) Model.JSON.readTree(row.get("given").asText()));
            assertEquals(row.get("says").asText(), assertThrows(InvalidFeatures.class, () -> made.columns(event)).getMessage());
        }));
    }

    enum Channel { POS }

    @Test
    void valuesOfJavaCountAsTheirJson() {
        assertArrayEquals(columns("{\"a\": 0.1, \"c\": \"POS\"}"), columns(Map.of("a", 0.1f, "c", Channel.POS)));
        assertEquals(0.1, recipe.columns(Model.JSON.createObjectNode().put("a", 0.1f))[0]);
        for (Object number : new Object[] {7, 7L, (short) 7, (byte) 7, 7.0, 7f, new BigDecimal("7.0"), BigInteger.valueOf(7), Optional.of(7)})
            assertArrayEquals(columns("{\"a\": 7, \"c\": 7}"), columns(Map.of("a", number, "c", number)), number.getClass().toString());
        assertArrayEquals(columns("{\"a\": 1, \"c\": true}"), columns(Map.of("a", 1, "c", true)));
        Map<String, Object> absent = new HashMap<>(Map.of("a", 1, "c", Optional.empty()));
        absent.put("t", null);
        assertArrayEquals(columns("{\"a\": 1}"), columns(absent));
        for (Object list : new Object[] {List.of(0, Map.of("x", 5)), new Object[] {0, Map.of("x", 5)}})
            assertArrayEquals(columns("{\"a\": 1, \"list\": [0, {\"x\": 5}]}"), columns(Map.of("a", 1, "list", list)));
        refused("list[1].x cannot be read: list[1] is a number, not an object", Map.of("a", 1, "list", new int[] {1, 2}));
    }

    @Test
    void timesOfJavaCountInEveryFormat() {
        Instant time = Instant.parse("2026-07-01T13:59:59.5Z");
        double[] expected = columns("{\"a\": 1, \"t\": \"2026-07-01T13:59:59.5Z\", \"u\": 1782914399500, \"v\": 0}");
        for (Object one : new Object[] {time, OffsetDateTime.parse("2026-07-01T15:59:59.5+02:00"), ZonedDateTime.parse("2026-07-01T13:59:59.5Z[UTC]")})
            assertArrayEquals(expected, columns(Map.of("a", 1, "t", one, "u", one, "v", Instant.EPOCH)));
        assertArrayEquals(columns("{\"a\": 1, \"t\": \"2026-07-01\"}"), columns(Map.of("a", 1, "t", LocalDate.parse("2026-07-01"))));
        assertArrayEquals(columns("{\"a\": 1, \"t\": \"2026-07-01T12:00\"}"), columns(Map.of("a", 1, "t", LocalDateTime.parse("2026-07-01T12:00"))));
        refused("u is '2026-07-01', not a number", Map.of("a", 1, "u", LocalDate.parse("2026-07-01"), "v", 0));
        refused("a cannot be read: it is a java.time.Instant", Map.of("a", time));
    }

    @Test
    void whatIsNotOfJsonIsRefusedWithItsPath() {
        refused("a cannot be read: it is a java.util.Date", Map.of("a", new Date(0)));
        refused("c cannot be read: it is a byte[]", Map.of("a", 1, "c", new byte[2]));
        refused("a is nan, beyond what can be learned", Map.of("a", Double.NaN));
        refused("list[1].x cannot be read: it is a java.lang.Object", Map.of("a", 1, "list", List.of(0, Map.of("x", new Object()))));
        refused("c is ['x'], not text, an integer or a boolean", Map.of("a", 1, "c", Set.of("x")));
        Map<String, Object> endless = new HashMap<>(Map.of("a", 1));
        endless.put("c", endless);
        assertThrows(InvalidFeatures.class, () -> columns(endless));
        for (String broken : new String[] {"", "{", "{} {}", "{\"a\": NaN}"})
            assertThrows(InvalidFeatures.class, () -> columns(broken), broken);
    }

    @Test
    void pointsScoreFromEveryInput() throws IOException {
        Model model = Model.read(Golden.bytes("model-1-linear.json"));
        Answer expected = model.score(1, -2, 4);
        String json = "{\"mean\": 1, \"kurtosis µ\": -2, \"dm\": 4}";
        assertEquals(expected, model.score(json));
        assertEquals(expected, model.score(json.getBytes(StandardCharsets.UTF_8)));
        assertEquals(expected, model.score("[1, -2, 4]"));
        assertEquals(expected, model.score(Map.of("mean", 1, "kurtosis µ", -2f, "dm", BigInteger.valueOf(4))));
        assertEquals(expected.hashCode(), model.score(json).hashCode());
        assertNotEquals(expected, model.score(2, -2, 4));
        assertEquals(model.reasons(Model.JSON.readTree(json), 2), model.reasons(Map.of("mean", 1, "kurtosis µ", -2, "dm", 4), 2));
        assertEquals(List.of("mean", "kurtosis µ", "dm"), model.fields().stream().map(Model.Field::path).toList());
        assertEquals("the names do not match the version's 3 features: missing 'dm'; unknown 'id'",
            assertThrows(InvalidFeatures.class, () -> model.score(Map.of("mean", 1, "kurtosis µ", -2, "id", 4))).getMessage());
        assertEquals("'mean' is '1', not a number", assertThrows(InvalidFeatures.class, () -> model.score("[\"1\", -2, 4]")).getMessage());
        assertEquals("'dm' is nan; a feature must be a finite number", assertThrows(InvalidFeatures.class, () -> model.score(1, -2, Double.NaN)).getMessage());
    }

    @Test
    void answersNeedNoJackson() {
        Answer answer = new Answer(new double[] {0.5}, Values.of("noise", 0), new double[] {0.25});
        assertEquals("Answer(\"noise\", decision 0.5, probability 0.25)", answer.toString());
        assertEquals("noise", answer.labelText());
        assertEquals(Arrays.asList(7L, true, 0.5, "x", null), Stream.of(7, true, 0.5, "x", null).map(one -> Values.plain(Values.of(one, 0))).toList());
    }

    @Test
    void fieldsAreNamed() {
        assertEquals("[a number true, c hash false, t time false, u time false, v time false, list[1].x number false]",
            recipe.needed().stream().map(one -> one.path() + " " + one.kind() + " " + one.required()).toList().toString());
    }

    private static final Schema SCHEMA = new Schema.Parser().parse("{\"type\": \"record\", \"name\": \"P\", \"fields\": ["
        + "{\"name\": \"a\", \"type\": [\"null\", {\"type\": \"bytes\", \"logicalType\": \"decimal\", \"precision\": 9, \"scale\": 2}]},"
        + "{\"name\": \"c\", \"type\": {\"type\": \"enum\", \"name\": \"E\", \"symbols\": [\"pos\"]}},"
        + "{\"name\": \"u\", \"type\": {\"type\": \"long\", \"logicalType\": \"timestamp-micros\"}},"
        + "{\"name\": \"v\", \"type\": {\"type\": \"int\", \"logicalType\": \"date\"}},"
        + "{\"name\": \"list\", \"type\": {\"type\": \"array\", \"items\": {\"type\": \"map\", \"values\": \"float\"}}},"
        + "{\"name\": \"own\", \"type\": {\"type\": \"record\", \"namespace\": \"io.debezium.data\", \"name\": \"VariableScaleDecimal\", \"fields\": ["
        + "{\"name\": \"scale\", \"type\": \"int\"}, {\"name\": \"value\", \"type\": \"bytes\"}]}},"
        + "{\"name\": \"clock\", \"type\": {\"type\": \"int\", \"logicalType\": \"time-millis\"}},"
        + "{\"name\": \"raw\", \"type\": \"bytes\"}]}");

    private static GenericRecord payment() {
        GenericRecord record = new GenericData.Record(SCHEMA);
        record.put("a", ByteBuffer.wrap(BigInteger.valueOf(-106537).toByteArray()));
        record.put("c", new GenericData.EnumSymbol(SCHEMA.getField("c").schema(), "pos"));
        record.put("u", 1782914399500123L);
        record.put("v", 20_000);
        record.put("list", List.of(Map.of(), Map.of(new Utf8("x"), 0.1f)));
        GenericRecord own = new GenericData.Record(SCHEMA.getField("own").schema());
        own.put("scale", 3);
        own.put("value", ByteBuffer.wrap(new byte[] {0, 5}, 1, 1));
        record.put("own", own);
        record.put("clock", 3_600_001);
        record.put("raw", ByteBuffer.wrap(new byte[] {1}));
        return record;
    }

    @Test
    void aRecordOfAvroIsTheEventThatATrainerReads() throws IOException {
        GenericData converting = new GenericData();
        converting.addLogicalTypeConversion(new Conversions.DecimalConversion());
        converting.addLogicalTypeConversion(new TimeConversions.TimestampMicrosConversion());
        converting.addLogicalTypeConversion(new TimeConversions.DateConversion());
        converting.addLogicalTypeConversion(new TimeConversions.TimeMillisConversion());
        var out = new java.io.ByteArrayOutputStream();
        var encoder = EncoderFactory.get().binaryEncoder(out, null);
        new GenericDatumWriter<GenericRecord>(SCHEMA).write(payment(), encoder);
        encoder.flush();
        var decoder = DecoderFactory.get().binaryDecoder(out.toByteArray(), null);
        GenericRecord converted = new GenericDatumReader<GenericRecord>(SCHEMA, SCHEMA, converting).read(null, decoder);
        assertEquals(Instant.class, converted.get("u").getClass());
        for (GenericRecord record : List.of(payment(), converted)) {
            Map<String, Object> event = AvroEvents.of(record);
            assertEquals(new BigDecimal("-1065.37"), event.get("a"));
            assertEquals("pos", event.get("c"));
            assertEquals(1782914399500123L, ((Number) event.get("u")).longValue());
            assertEquals(20_000L, ((Number) event.get("v")).longValue());
            assertEquals(List.of(Map.of(), Map.of("x", (double) 0.1f)), event.get("list"));
            assertEquals(new BigDecimal("0.005"), event.get("own"));
            assertEquals(3_600_001L, ((Number) event.get("clock")).longValue());
            JsonNode node = Values.of(event, 0);
            assertEquals(-1065.37, node.get("a").doubleValue());
            assertEquals("raw cannot be read: it is a java.nio.HeapByteBuffer", Values.wrong("raw", node.get("raw"), "a number").getMessage());
        }
    }
}
