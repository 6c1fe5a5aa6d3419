package io.streamsvm.reader;

import com.fasterxml.jackson.databind.JsonNode;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.common.header.Header;

/**
 * What the scorer made of one record. Read its topic with {@code isolation.level = read_committed}.
 *
 * @param source topic/partition/offset of the scored record; a reader of committed records sees each once
 * @param modelSha256 SHA-256 of the version that scored
 * @param rows a score for each valid row of the record
 */
public record Scores(String source, String modelSha256, List<Scores.Row> rows) {
    /**
     * The score of one row.
     *
     * @param id of the point or event; a null node where it has none
     * @param label as the records have it
     * @param decision of two labels the one decision value, of more a value for each label
     * @param probability of two labels that of the second one, of more that of each; null where the version has none
     * @param model its name
     * @param version its number
     * @param points how many points the version learned
     * @param passed fields of the event by their paths ({@code scoring.pass_fields}); null where there are none
     * @param reasons which fields add most ({@code scoring.reasons}); null where there are none
     * @param row index of the point in the record, where the record is an array; 0 where it is not
     * @param shadow what another version would have answered ({@code scoring.shadow}); null where there is none
     */
    public record Row(JsonNode id, JsonNode label, double[] decision, double[] probability, String model, int version, long points,
            JsonNode passed, Reasons reasons, int row, Shadow shadow) {
        /** Return the id as Long or String; null where it has none. */
        public Object idValue() {
            return Values.plain(id);
        }

        /** Return decision, label and probability as a version gives them. */
        public Answer answer() {
            return new Answer(decision, label, probability);
        }
    }

    /**
     * What another version would have answered.
     *
     * @param model its name
     * @param version its number
     * @param answer its answer
     */
    public record Shadow(String model, int version, Answer answer) {}

    /**
     * Read a record of the scores' topic. Fields that this reader does not know are passed over.
     *
     * @throws RefusedMessage if it is not one
     */
    public static Scores read(ConsumerRecord<byte[], byte[]> record) {
        String place = record.topic() + "[" + record.partition() + "]@" + record.offset();
        return new Scores(text(record.headers().lastHeader("streamsvm.source")), text(record.headers().lastHeader("streamsvm.model.sha256")),
            rows(record.value(), place));
    }

    /** Read the value of a record of the scores' topic; {@code place} is for the message of a refusal. */
    public static List<Row> rows(byte[] value, String place) {
        List<Row> rows = new ArrayList<>();
        try {
            Message.must(value != null, place + " is a tombstone, not scores");
            JsonNode read = Model.JSON.readTree(value);
            if (!read.isArray()) rows.add(row(read, place));
            else for (JsonNode one : read) rows.add(row(one, place));
            return List.copyOf(rows);
        } catch (IOException fault) {
            throw new RefusedMessage(place + " is not JSON: " + fault.getMessage());
        }
    }

    private static Row row(JsonNode one, String place) {
        for (String field : List.of("id", "score", "label", "model", "version", "points"))
            Message.must(one.has(field), place + " is not a score: it lacks the field " + field);
        return new Row(one.get("id"), one.get("label"), numbers(one.get("score")), numbers(one.get("probability")), one.get("model").asText(),
            one.get("version").asInt(), one.get("points").asLong(), one.get("passed"), reasons(one.get("reasons")), one.path("row").asInt(), shadow(one.get("shadow"), place));
    }

    private static Shadow shadow(JsonNode value, String place) {
        if (value == null) return null;
        for (String field : List.of("model", "version", "score", "label"))
            Message.must(value.has(field), place + " is not a score: its shadow lacks the field " + field);
        return new Shadow(value.get("model").asText(), value.get("version").asInt(),
            new Answer(numbers(value.get("score")), value.get("label"), numbers(value.get("probability"))));
    }

    private static double[] numbers(JsonNode value) {
        return value == null ? null : value.isArray() ? Recipe.array(value) : new double[] {value.asDouble()};
    }

    private static Reasons reasons(JsonNode value) {
        if (value == null) return null;
        List<Reasons.Field> fields = new ArrayList<>();
        value.path("fields").forEach(one -> fields.add(new Reasons.Field(one.path("field").asText(), one.path("adds").asDouble())));
        return new Reasons(value.path("baseline").asDouble(), List.copyOf(fields), value.path("rest").asDouble());
    }

    private static String text(Header header) {
        return header == null ? null : new String(header.value(), StandardCharsets.UTF_8);
    }
}
