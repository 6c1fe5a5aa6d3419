package io.streamsvm.reader;

import com.fasterxml.jackson.databind.JsonNode;
import java.io.IOException;
import java.util.List;
import java.util.stream.Stream;
import org.apache.kafka.clients.consumer.ConsumerRecord;

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
        List<Row> rows = rows(record.value(), Values.place(record));
        return new Scores(Values.header(record, "streamsvm.source"), Values.header(record, "streamsvm.model.sha256"), rows);
    }

    /** Read the value of a record of the scores' topic; {@code place} is for the message of a refusal. */
    public static List<Row> rows(byte[] value, String place) {
        try {
            Message.must(value != null, place + " is a tombstone, not scores");
            JsonNode read = Model.JSON.readTree(value);
            return (read.isArray() ? Values.stream(read) : Stream.of(read)).map(one -> row(one, place)).toList();
        } catch (IOException fault) {
            throw new RefusedMessage(place + " is not JSON: " + fault.getMessage());
        }
    }

    private static Row row(JsonNode one, String place) {
        Message.has(one, List.of("id", "score", "label", "model", "version", "points"), place + " is not a score: it");
        Answer answer = answer(one);
        return new Row(one.get("id"), answer.label(), answer.decision(), answer.probability(), one.get("model").asText(), one.get("version").asInt(),
            one.get("points").asLong(), one.get("passed"), reasons(one.get("reasons")), one.path("row").asInt(), shadow(one.get("shadow"), place));
    }

    private static Answer answer(JsonNode one) {
        return new Answer(numbers(one.get("score")), one.get("label"), numbers(one.get("probability")));
    }

    private static Shadow shadow(JsonNode one, String place) {
        if (one == null) return null;
        Message.has(one, List.of("model", "version", "score", "label"), place + " is not a score: its shadow");
        return new Shadow(one.get("model").asText(), one.get("version").asInt(), answer(one));
    }

    private static double[] numbers(JsonNode value) {
        return value == null ? null : value.isArray() ? Values.array(value) : new double[] {value.asDouble()};
    }

    private static Reasons reasons(JsonNode value) {
        if (value == null) return null;
        var fields = Values.stream(value.path("fields")).map(one -> new Reasons.Field(one.path("field").asText(), one.path("adds").asDouble()));
        return new Reasons(value.path("baseline").asDouble(), fields.toList(), value.path("rest").asDouble());
    }
}
