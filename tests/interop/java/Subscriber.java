// What the tests run of the reader in Java (deploy/java): each mode prints lines of JSON.
//
//     Subscriber BOOTSTRAP MODELS_TOPIC NAME POINTS.json [PUBLIC_KEYS.pem | OPTIONS.json]   a line for each version that it serves
//     Subscriber --live BOOTSTRAP MODELS_TOPIC NAME ALIAS|NUMBER QUIET_MS [DECLINED]   a line for all that a listener hears
//     Subscriber --check POINTS.json MODEL.json...                           a line for each file: an answer for each point
//     Subscriber --events MODEL.json EVENTS.jsonl [K]                        a line for each event, with K reasons
//     Subscriber --contract CASES.json GOLDEN POINTS.json                    a line for each case of a model or of scores
//     Subscriber --scores BOOTSTRAP TOPIC COUNT                              a line for each record of scores
//     Subscriber --produce BOOTSTRAP TOPIC COMPRESSION FILE                  writes one record
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import io.streamsvm.reader.Answer;
import io.streamsvm.reader.InvalidFeatures;
import io.streamsvm.reader.Model;
import io.streamsvm.reader.ModelSubscriber;
import io.streamsvm.reader.Options;
import io.streamsvm.reader.Reasons;
import io.streamsvm.reader.RefusedMessage;
import io.streamsvm.reader.Scores;
import io.streamsvm.reader.TrustedKeys;
import java.io.File;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

public class Subscriber {
    static final ObjectMapper JSON = new ObjectMapper();

    public static void main(String[] args) throws Exception {
        switch (args[0]) {
            case "--check" -> {
                JsonNode points = JSON.readTree(new File(args[1]));
                for (String file : Arrays.asList(args).subList(2, args.length)) say(answers(Files.readAllBytes(Path.of(file)), points));
            }
            case "--live" -> live(args);
            case "--events" -> events(args);
            case "--contract" -> contract(JSON.readTree(new File(args[1])).get("cases"), args[2], JSON.readTree(new File(args[3])));
            case "--scores" -> scores(args[1], args[2], Integer.parseInt(args[3]));
            case "--produce" -> produce(args[1], args[2], args[3], args[4]);
            default -> follow(args);
        }
    }

    static void contract(JsonNode cases, String golden, JsonNode points) throws Exception {
        for (JsonNode one : cases) {
            String kind = one.get("read").asText();
            if (!kind.equals("model") && !kind.equals("scores")) continue;
            Object told = kind.equals("model") ? Map.of("answers", answers(edited(one, golden), points)) : told(one);
            say(Map.of("case", one.get("case"), "told", told));
        }
    }

    /** What the reader makes of a record of scores: where it comes from, how many there are, and their ids. */
    static Object told(JsonNode one) {
        byte[] value = one.has("text") ? one.get("text").asText().getBytes(StandardCharsets.UTF_8) : null;
        var record = new ConsumerRecord<byte[], byte[]>("scores", 0, 3, null, value);
        one.path("headers").properties().forEach(header -> record.headers().add(header.getKey(), header.getValue().asText().getBytes()));
        try {
            Scores scores = Scores.read(record);
            Map<String, Object> told = new HashMap<>(Map.of("scores", scores.rows().size()));
            told.put("ids", scores.rows().stream().map(row -> row.id().asText()).toList());
            told.put("source", scores.source());
            told.put("modelSha256", scores.modelSha256());
            return told;
        } catch (RefusedMessage refusal) {
            return Map.of("refused", refusal.getMessage());
        }
    }

    /** The golden message of a case with its edits. */
    static byte[] edited(JsonNode one, String golden) throws Exception {
        byte[] whole = Files.readAllBytes(Path.of(golden, "model-1-" + one.get("of").asText() + ".json"));
        if (!one.has("edits")) return whole;
        JsonNode message = JSON.readTree(whole);
        for (JsonNode edit : one.get("edits")) {
            String verb = edit.has("set") ? "set" : edit.has("remove") ? "remove" : "insert";
            List<JsonNode> path = new ArrayList<>();
            edit.get(verb).forEach(path::add);
            if (path.isEmpty()) message = edit.get("to");
            if (path.isEmpty()) continue;
            JsonNode parts = message.path("parts");
            for (int i = 0; i < parts.size() && !message.has(path.get(0).asText()); i++)
                if (parts.get(i).path("part").equals(path.get(0))) {
                    path.set(0, JSON.getNodeFactory().numberNode(i));
                    path.add(0, JSON.getNodeFactory().textNode("parts"));
                    break;
                }
            JsonNode holder = message, last = path.remove(path.size() - 1);
            for (JsonNode step : path) holder = step.isTextual() ? holder.get(step.asText()) : holder.get(step.asInt());
            if (holder instanceof ArrayNode list) {
                if (verb.equals("set")) list.set(last.asInt(), edit.get("to"));
                else if (verb.equals("insert")) list.insert(last.asInt(), edit.get("to"));
                else list.remove(last.asInt());
            } else if (verb.equals("set")) ((ObjectNode) holder).set(last.asText(), edit.get("to"));
            else ((ObjectNode) holder).remove(last.asText());
        }
        return JSON.writeValueAsBytes(message);
    }

    static void follow(String[] args) throws Exception {
        JsonNode points = JSON.readTree(new File(args[3]));
        JsonNode given = args.length > 4 && args[4].endsWith(".json") ? JSON.readTree(new File(args[4])) : JSON.createObjectNode();
        String trusted = args.length > 4 && args[4].endsWith(".pem") ? args[4] : null;
        int refused = given.path("refused").asInt();
        var listener = new ModelSubscriber.Listener() {
            @Override
            public void check(Model next) {
                if (next.version() == refused) throw new IllegalStateException("not wanted here");
            }

            @Override
            public void serves(Model model) {
                List<Object> decision = new ArrayList<>();
                for (JsonNode point : points) decision.add(answer(model, point).get("decision"));
                say(Map.of("version", model.version(), "sha256", model.sha256(), "decision", decision));
            }
        };
        Options options = Options.defaults().withModelsTopic(args[1]).withListener(listener);
        if (trusted != null) options = options.withTrusted(TrustedKeys.of(Path.of(trusted)));
        if (given.has("alias")) options = options.withAlias(given.get("alias").asText());
        if (given.has("version")) options = options.withVersion(given.get("version").asInt());
        if (given.has("quiet_s")) options = options.withQuiet(Duration.ofSeconds(given.get("quiet_s").asInt()));
        Map<String, Object> client = new HashMap<>(Map.of("bootstrap.servers", args[0]));
        JSON.readTree(System.getenv().getOrDefault("KAFKA_OPTIONS", "{}")).properties().forEach(one -> client.put(one.getKey(), one.getValue().asText()));
        try (var subscriber = new ModelSubscriber(client, args[2], options)) {
            Thread.sleep(Long.MAX_VALUE);
        }
    }

    /** What a listener hears, with what the subscriber says of itself; the version DECLINED is refused. */
    static void live(String[] args) throws Exception {
        var listener = new ModelSubscriber.Listener() {
            @Override
            public void check(Model next) {
                if (args.length > 6 && next.version() == Integer.parseInt(args[6])) throw new IllegalStateException("we want another");
            }

            @Override
            public void serves(Model model) {
                say(Map.of("serves", model.name() + "@" + model.version()));
            }

            @Override
            public void refused(String why) {
                say(Map.of("refused", why));
            }

            @Override
            public void waits(String why) {
                say(Map.of("waits", why));
            }

            @Override
            public void hears() {
                say(Map.of("hears", true));
            }
        };
        Options options = Options.defaults().withModelsTopic(args[2]).withQuiet(Duration.ofMillis(Integer.parseInt(args[5]))).withListener(listener);
        options = Character.isDigit(args[4].charAt(0)) ? options.withVersion(Integer.parseInt(args[4])) : options.withAlias(args[4]);
        try (var subscriber = new ModelSubscriber(Map.of("bootstrap.servers", args[1]), args[3], options)) {
            for (String before = ""; ; Thread.sleep(100)) {
                var now = subscriber.readiness();
                String told = now.ready() + " " + now.version() + " " + now.missing() + " " + (now.lastHeard() != null) + " " + (now.age() != null);
                Map<String, Object> state = new HashMap<>(Map.of("ready", now.ready(), "missing", now.missing(), "heard", now.lastHeard() != null, "aged", now.age() != null));
                state.put("version", now.version());
                if (!told.equals(before)) say(Map.of("state", state));
                before = told;
            }
        }
    }

    static Object answers(byte[] value, JsonNode points) {
        try {
            Model model = Model.read(value);
            List<Object> answers = new ArrayList<>();
            for (JsonNode point : points) answers.add(answer(model, point));
            return answers;
        } catch (RefusedMessage refusal) {
            return Map.of("refused", refusal.getMessage());
        }
    }

    static Map<String, Object> answer(Model model, JsonNode point) {
        try {
            Answer answer = model.score(point);
            Map<String, Object> told = new HashMap<>(Map.of("decision", told(answer.decision()), "label", answer.label()));
            if (answer.probability() != null) told.put("probability", told(answer.probability()));
            return told;
        } catch (InvalidFeatures rejection) {
            return Map.of("error", rejection.getMessage());
        }
    }

    static Object told(double[] values) {
        return values.length > 1 ? values : values[0];
    }

    static void events(String[] args) throws Exception {
        Model model = Model.read(Files.readAllBytes(Path.of(args[1])));
        for (String line : Files.readAllLines(Path.of(args[2]))) {
            JsonNode event = JSON.readTree(line);
            Map<String, Object> told = answer(model, event);
            if (args.length > 3 && told.containsKey("decision")) told.put("reasons", told(model.reasons(event, Integer.parseInt(args[3]))));
            say(told);
        }
    }

    static Object told(Reasons reasons) {
        return Map.of("baseline", reasons.baseline(), "fields", reasons.fields(), "rest", reasons.rest());
    }

    static void scores(String bootstrap, String topic, int count) {
        Map<String, Object> options = Map.of("bootstrap.servers", bootstrap, "isolation.level", "read_committed");
        try (var consumer = new KafkaConsumer<>(options, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            consumer.assign(List.of(new TopicPartition(topic, 0)));
            consumer.seekToBeginning(consumer.assignment());
            for (int seen = 0; seen < count; )
                for (var record : consumer.poll(Duration.ofMillis(200))) {
                    say(Scores.read(record));
                    seen++;
                }
        }
    }

    static void produce(String bootstrap, String topic, String compression, String file) throws Exception {
        Map<String, Object> options = Map.of("bootstrap.servers", bootstrap, "compression.type", compression);
        try (var producer = new KafkaProducer<>(options, new ByteArraySerializer(), new ByteArraySerializer())) {
            producer.send(new ProducerRecord<>(topic, 0, null, Files.readAllBytes(Path.of(file)))).get();
        }
    }

    static synchronized void say(Object what) {
        try {
            System.out.println(JSON.writeValueAsString(what));
        } catch (com.fasterxml.jackson.core.JsonProcessingException impossible) {
            throw new AssertionError(impossible);
        }
    }
}
