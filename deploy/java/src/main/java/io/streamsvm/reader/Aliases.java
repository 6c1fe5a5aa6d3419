package io.streamsvm.reader;

import com.fasterxml.jackson.databind.JsonNode;
import java.io.IOException;
import java.util.*;
import org.apache.kafka.clients.consumer.ConsumerRecord;

/** What the aliases topic says of one model: its newest records by their keys. A record that cannot be read changes nothing. */
final class Aliases {
    /** The version that is to be used: its number, the SHA-256 of its value, and the offset of its record. */
    record Alias(int number, String sha256, long offset) {}

    private static final Set<String> FIELDS = Set.of("number", "sha256", "offset", "why");
    private final String name, key;
    /** Every alias, and the pin, by its key. */
    final Map<String, Alias> named = new HashMap<>();
    private JsonNode head, retired;

    Aliases(String name, String alias) {
        this.name = name;
        key = name + "@" + alias;
    }

    /** Take in a record, in the order of the topic; RefusedMessage says that it is ours, and cannot be read. */
    void note(ConsumerRecord<byte[], byte[]> record) {
        String key = Values.key(record);
        if (!key.startsWith(name + "@")) return;
        String beside = key.substring(name.length() + 1), what = "the alias " + key + " at " + Values.place(record);
        boolean isAlias = beside.equals("current#pin") || !beside.contains("#") && !Options.RESERVED.contains(beside);
        if (!isAlias && !beside.equals("head") && !beside.equals("retired")) return;
        boolean isOurs = key.equals(this.key) || key.equals(this.key + "#pin");
        try {
            JsonNode value = record.value() == null ? null : Model.JSON.readTree(record.value());
            if (beside.equals("head")) head = value;
            else if (beside.equals("retired")) retired = value;
            else if (value == null) named.remove(key);
            else {
                Alias found = alias(value);
                Message.must(found != null, what + " does not name a version");
                value.fieldNames().forEachRemaining(field -> Message.must(FIELDS.contains(field), "the alias " + key + " has the unknown field " + field));
                named.put(key, found);
            }
        } catch (IOException fault) {
            if (!isAlias || isOurs) throw new RefusedMessage(what + " is not JSON");
        } catch (RefusedMessage fault) {
            if (isOurs) throw fault;
        }
    }

    private static Alias alias(JsonNode value) {
        boolean whole = value.path("number").isIntegralNumber() && value.path("sha256").isTextual() && value.path("offset").isIntegralNumber();
        if (!whole || value.get("number").asInt() < 1 || value.get("offset").asLong() < 0) return null;
        return new Alias(value.get("number").asInt(), value.get("sha256").asText(), value.get("offset").asLong());
    }

    /** Return the pin if there is one, else what the alias names; null if there is neither. */
    Alias wanted() {
        return named.getOrDefault(key + "#pin", named.get(key));
    }

    /** Return why no version is wanted. */
    String missing() {
        JsonNode gate = head == null ? null : head.get("gate");
        String why = "has no alias " + key;
        if (!key.equals(name + "@current") || gate == null || !gate.path("outcome").asText().equals("refused")) return why;
        return why + ": version " + head.path("number").asInt() + ", the newest, was held back, because " + gate.path("why").asText();
    }

    /** Return where the chain of hashes begins: the head; if there is none, every alias. */
    Collection<Alias> roots() {
        Alias newest = head == null ? null : alias(head);
        return newest == null ? named.values() : List.of(newest);
    }

    /** Return the greatest number that is known to be published, 0 if none is. */
    int newest() {
        return roots().stream().mapToInt(Alias::number).max().orElse(0);
    }

    /** Refuse a number that no version has, or one that is retired. */
    void mustHave(int number, String topic) {
        Message.must(newest() > 0, name + " has no version " + number + "; " + topic + " names no version of " + name);
        Message.must(number <= newest(), name + " has no version " + number + "; the newest is " + newest());
        boolean isNamed = named.values().stream().anyMatch(alias -> alias.number() == number);
        boolean gone = retired != null && (number < retired.path("below").asInt() && !holds(retired.path("kept"), number) || holds(retired.path("others"), number));
        Message.must(isNamed || !gone, "version " + number + " of " + name + " was retired; the newest is " + newest());
    }

    private static boolean holds(JsonNode numbers, int number) {
        return Values.stream(numbers).anyMatch(one -> one.asInt() == number);
    }

    /** Return the version of a record that is what the alias names, or refuse it. */
    Model checked(ConsumerRecord<byte[], byte[]> record, Alias alias, TrustedKeys trusted) {
        String key = name + "@" + alias.number(), place = Values.place(record), at = "the record at " + place;
        Message.must(record.value() != null, place + " is a tombstone: " + key + " was retired");
        Message.must(key.equals(Values.key(record)), at + " has another key than " + key);
        String found = Model.sha256(record.value()), said = Objects.requireNonNullElse(Values.header(record, "streamsvm.sha256"), "missing");
        Message.must(found.equals(said), at + " has the SHA-256 " + found + ", but its header says " + said);
        Message.must(found.equals(alias.sha256()), at + " has the SHA-256 " + found + ", but the alias says " + alias.sha256());
        Message.must(trusted == null || trusted.signed(key, found, Values.header(record, "streamsvm.signature")), "it is signed by none of the trusted keys");
        Model model = Model.read(record.value());
        Message.must(model.name().equals(name) && model.version() == alias.number(), at + " holds " + model + ", not " + key);
        return model;
    }
}
