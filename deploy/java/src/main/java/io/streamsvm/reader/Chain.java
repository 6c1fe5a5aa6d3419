package io.streamsvm.reader;

import com.fasterxml.jackson.databind.JsonNode;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.Collection;
import java.util.HashMap;
import java.util.Map;
import java.util.TreeMap;
import java.util.stream.Collectors;
import org.apache.kafka.clients.consumer.ConsumerRecord;

/**
 * Which record is version N: the one whose SHA-256 follows from those in the aliases topic, by the hashes of earlier versions
 * that each version names. The right to write to the models topic is not enough to change that.
 */
final class Chain {
    private record Seen(int number, long offset, Map<Integer, String> ancestors) {}

    private final String name;
    private final int number;
    private final Map<String, Seen> seen = new HashMap<>();

    Chain(String name, int number) {
        this.name = name;
        this.number = number;
    }

    /** Take in a record of the models topic; of two with one value the first counts. */
    void note(ConsumerRecord<byte[], byte[]> record) {
        String key = record.key() == null ? "" : new String(record.key(), StandardCharsets.UTF_8);
        if (record.value() == null || !key.startsWith(name + "@")) return;
        try {
            JsonNode value = Model.JSON.readTree(record.value()), lineage = value.path("lineage");
            int own = value.path("version").asInt();
            if (own < number || !value.path("name").asText().equals(name) || !key.equals(name + "@" + own)) return;
            Map<Integer, String> ancestors = new HashMap<>();
            for (JsonNode link : lineage.path("links")) ancestors.put(link.path("number").asInt(), link.path("sha256").asText());
            if (lineage.path("parent").isTextual()) ancestors.put(own - 1, lineage.get("parent").asText());
            seen.putIfAbsent(Model.sha256(record.value()), new Seen(own, record.offset(), ancestors));
        } catch (IOException notAVersion) {
            return;
        }
    }

    /** Return where the version is, going from the least known version that is not below it to the next; or refuse it. */
    Aliases.Alias found(Aliases aliases, String topic) {
        TreeMap<Integer, String> known = new TreeMap<>();
        // What other aliases name comes last: who named a forgery once must not be believed before the chain.
        Aliases.Alias found = descend(aliases.roots(), known);
        if (found == null) found = descend(aliases.named(), known);
        if (found != null) return found;
        String there = seen.entrySet().stream().filter(one -> one.getValue().number == number)
            .map(one -> one.getKey() + " at offset " + one.getValue().offset).sorted().collect(Collectors.joining(", "));
        String key = name + "@" + number, sha256 = known.get(number);
        if (there.isEmpty()) throw new RefusedMessage(key + (sha256 == null ? "" : ", which is " + sha256 + ",") + " is not in " + topic + "; the newest is " + aliases.newest());
        throw new RefusedMessage(sha256 != null ? key + " has the SHA-256 " + sha256 + ", but " + topic + " no longer holds that record, only other values under its number: " + there
            : key + " may be a forgery: no later version that " + topic + " still holds names its hash. Values under its number: " + there);
    }

    private Aliases.Alias descend(Collection<Aliases.Alias> roots, TreeMap<Integer, String> known) {
        for (Aliases.Alias root : roots) known.putIfAbsent(root.number(), root.sha256());
        TreeMap<Integer, String> waiting = new TreeMap<>(known.tailMap(number));
        while (!waiting.isEmpty()) {
            Map.Entry<Integer, String> step = waiting.pollFirstEntry();
            Seen there = seen.get(step.getValue());
            if (there == null || there.number != step.getKey()) continue;
            if (there.number == number) return new Aliases.Alias(number, step.getValue(), there.offset);
            there.ancestors.forEach((earlier, sha256) -> {
                if (earlier >= number && known.putIfAbsent(earlier, sha256) == null) waiting.put(earlier, sha256);
            });
        }
        return null;
    }
}
