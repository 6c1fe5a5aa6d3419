package io.streamsvm.reader;

import com.fasterxml.jackson.databind.JsonNode;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.Map;
import java.util.Set;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.common.header.Header;

/** What the aliases topic says of one model: its newest records by their keys. A record that cannot be read changes nothing. */
final class Aliases {
    /** The version that is to be used: its number, the SHA-256 of its value, and the offset of its record. */
    record Alias(int number, String sha256, long offset) {}

    private static final Set<String> FIELDS = Set.of("number", "sha256", "offset", "why");
    private final String name;
    private final Map<String, Alias> named = new HashMap<>();
    private JsonNode head;

    Aliases(String name) {
        this.name = name;
    }

    /** Take in a record, in the order of the topic; RefusedMessage says that it is ours, and cannot be read. */
    void note(ConsumerRecord<byte[], byte[]> record) {
        String key = record.key() == null ? "" : new String(record.key(), StandardCharsets.UTF_8);
        boolean isAlias = key.equals(name + "@current") || key.equals(name + "@current#pin");
        if (!isAlias && !key.equals(name + "@head")) return;
        JsonNode value = null;
        try {
            if (record.value() != null) value = Model.JSON.readTree(record.value());
        } catch (IOException fault) {
            throw new RefusedMessage("the alias " + key + " at " + record.topic() + "[" + record.partition() + "]@" + record.offset() + " is not JSON");
        }
        if (!isAlias) head = value;
        else if (value == null) named.remove(key);
        else {
            boolean whole = value.path("number").isIntegralNumber() && value.path("sha256").isTextual() && value.path("offset").isIntegralNumber();
            Message.must(whole && value.get("number").asInt() > 0 && value.get("offset").asLong() >= 0,
                "the alias " + key + " at " + record.topic() + "[" + record.partition() + "]@" + record.offset() + " does not name a version");
            value.fieldNames().forEachRemaining(field -> Message.must(FIELDS.contains(field), "the alias " + key + " has the unknown field " + field));
            named.put(key, new Alias(value.get("number").asInt(), value.get("sha256").asText(), value.get("offset").asLong()));
        }
    }

    /** Return the pin if there is one, else what was published last; null if there is neither. */
    Alias wanted() {
        Alias pin = named.get(name + "@current#pin");
        return pin != null ? pin : named.get(name + "@current");
    }

    /** Return why no version is wanted. */
    String missing() {
        JsonNode gate = head == null ? null : head.get("gate");
        String outcome = gate == null ? "" : gate.path("outcome").asText();
        String why = "there is no alias " + name + "@current";
        if (!outcome.equals("refused")) return why;
        return why + ": version " + head.path("number").asInt() + " was held back, because " + gate.path("why").asText();
    }

    /** Return the version of a record that is what the alias names, or refuse it. */
    Model checked(ConsumerRecord<byte[], byte[]> record, Alias alias, TrustedKeys trusted) {
        String key = name + "@" + alias.number(), place = record.topic() + "[" + record.partition() + "]@" + record.offset();
        Message.must(record.value() != null, place + " is a tombstone: " + key + " was retired");
        Message.must(record.key() != null && key.equals(new String(record.key(), StandardCharsets.UTF_8)), "the record at " + place + " has another key than " + key);
        String found = Model.sha256(record.value());
        Header header = record.headers().lastHeader("streamsvm.sha256");
        String said = header == null ? "missing" : new String(header.value(), StandardCharsets.UTF_8);
        Message.must(found.equals(said), "the record at " + place + " has the SHA-256 " + found + ", but its header says " + said);
        Message.must(found.equals(alias.sha256()), "the record at " + place + " has the SHA-256 " + found + ", but the alias says " + alias.sha256());
        Header signature = record.headers().lastHeader("streamsvm.signature");
        Message.must(trusted == null || trusted.signed(key, found, signature == null ? null : signature.value()), "it is signed by none of the trusted keys");
        Model model = Model.read(record.value());
        Message.must(model.name().equals(name) && model.version() == alias.number(), "the record at " + place + " holds " + model + ", not " + key);
        return model;
    }
}
