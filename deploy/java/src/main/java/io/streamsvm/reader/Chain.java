package io.streamsvm.reader;

import com.fasterxml.jackson.databind.JsonNode;
import java.io.IOException;
import java.util.*;
import java.util.stream.Collectors;
import org.apache.kafka.clients.consumer.ConsumerRecord;

/**
 * Which record is version N: the one whose SHA-256 follows from those in the aliases topic, by the hashes of earlier versions
 * that each version names. The right to write to the models topic is not enough to change that.
 */
final class Chain {
    /** A version and its hash; `earlier` has those that it names. */
    private record Link(int number, String sha256) {}

    private record Seen(long offset, Set<Link> earlier) {}

    private final String name;
    private final int number;
    private final Map<Link, Seen> seen = new TreeMap<>(Comparator.comparingInt(Link::number).reversed().thenComparing(Link::sha256));

    Chain(String name, int number) {
        this.name = name;
        this.number = number;
    }

    /** Take in a record of the models topic; of two with one value the first counts. */
    void note(ConsumerRecord<byte[], byte[]> record) {
        String key = Values.key(record);
        if (record.value() == null || !key.startsWith(name + "@")) return;
        try {
            JsonNode value = Model.JSON.readTree(record.value()), lineage = value.path("lineage");
            int own = value.path("version").asInt();
            if (own < number || !value.path("name").asText().equals(name) || !key.equals(name + "@" + own)) return;
            Set<Link> earlier = new HashSet<>();
            for (JsonNode link : lineage.path("links")) earlier.add(new Link(link.path("number").asInt(), link.path("sha256").asText()));
            if (lineage.path("parent").isTextual()) earlier.add(new Link(own - 1, lineage.get("parent").asText()));
            seen.putIfAbsent(new Link(own, Model.sha256(record.value())), new Seen(record.offset(), earlier));
        } catch (IOException notAVersion) {
            return;
        }
    }

    /** Return where the version is; or refuse it. */
    Aliases.Alias found(Aliases aliases, String topic) {
        Set<Link> proved = new LinkedHashSet<>();
        // What other aliases name comes last: who named a forgery once must not be believed before the chain.
        for (var roots : List.of(aliases.roots(), aliases.named.values())) {
            roots.forEach(root -> proved.add(new Link(root.number(), root.sha256())));
            seen.forEach((link, there) -> { if (proved.contains(link)) proved.addAll(there.earlier); }); // the newest first
            for (Link link : proved)
                if (link.number == number && seen.containsKey(link)) return new Aliases.Alias(number, link.sha256, seen.get(link).offset);
        }
        String there = seen.keySet().stream().filter(one -> one.number == number).map(one -> one.sha256 + " at offset " + seen.get(one).offset)
            .collect(Collectors.joining(", "));
        String key = name + "@" + number, sha256 = proved.stream().filter(one -> one.number == number).map(Link::sha256).findFirst().orElse(null);
        throw new RefusedMessage(there.isEmpty() ? key + (sha256 == null ? "" : ", which is " + sha256 + ",") + " is not in " + topic + "; the newest is " + aliases.newest()
            : sha256 != null ? key + " has the SHA-256 " + sha256 + ", but " + topic + " no longer holds that record, only other values under its number: " + there
            : key + " may be a forgery: no later version that " + topic + " still holds names its hash. Values under its number: " + there);
    }
}
