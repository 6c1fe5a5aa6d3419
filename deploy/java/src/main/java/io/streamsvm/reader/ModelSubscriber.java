package io.streamsvm.reader;

import java.math.BigDecimal;
import java.time.*;
import java.util.*;
import java.util.concurrent.TimeoutException;
import java.util.stream.*;
import org.apache.kafka.clients.consumer.*;
import org.apache.kafka.common.*;
import org.apache.kafka.common.errors.AuthenticationException;
import org.apache.kafka.common.errors.AuthorizationException;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * Keeps the version that an alias names loaded, in a thread of its own; a pin of {@code current} comes before it.
 *
 * <p>It joins no consumer group, and reads committed records only. A version whose SHA-256, signature or probes are wrong
 * never replaces the one in use. Topics, versions and brokers may come later than the subscriber. Make one at the start, and
 * take {@link #model()} once for each request: the next version may come in between.
 */
public final class ModelSubscriber implements AutoCloseable {
    /** What is told in the subscriber's thread, which waits for it. By default refusals and waiting are logged. */
    public interface Listener {
        /** Throw something to refuse a version: its text says why. It is asked once for each. */
        default void check(Model next) throws Exception {}

        /** A version is in use from now on. */
        default void serves(Model model) {}

        /** A record was refused; the version in use stays. */
        default void refused(String why) {
            LOG.log(System.Logger.Level.WARNING, why);
        }

        /** The wanted version is not in use, or no broker answers, for another reason than before. */
        default void waits(String why) {
            LOG.log(System.Logger.Level.INFO, why);
        }

        /** A broker answers again, after {@code waits} said that none did for a while. */
        default void hears() {
            LOG.log(System.Logger.Level.INFO, "a broker answers again");
        }
    }

    /**
     * What a health endpoint says.
     *
     * @param ready whether a version is in use
     * @param version name@number; null before the first
     * @param missing why the wanted version is not in use; empty if it is
     * @param lastHeard when a broker answered last; null before
     * @param age how long ago the version was made; null where its record does not say
     */
    public record Readiness(boolean ready, String version, String missing, Instant lastHeard, Duration age) {}

    private record Served(Model model, Instant made) {}

    private static final System.Logger LOG = System.getLogger(ModelSubscriber.class.getName());
    private static final Duration POLL = Duration.ofMillis(200), ANSWER = Duration.ofSeconds(3), FETCH = Duration.ofSeconds(10);
    private static final long FIRST_RETRY_MS = 100, LONGEST_RETRY_MS = 2_000, PAUSE_MS = 1_000;

    private final Map<String, Object> client;
    private final Options options;
    private final String name, servers, nobody, wants;
    private final TopicPartition versions, aliasesOf;
    private final Thread thread;
    private final Map<String, String> declined = new HashMap<>(); // versions that the listener refused, by SHA-256
    private Consumer<byte[], byte[]> follower, fetcher;
    private double answers; // of brokers to these two
    private long heardAt = System.nanoTime();
    private Aliases aliases;
    private Aliases.Alias settled; // what was loaded or refused last: it is not fetched again
    private String outcome = "", refusal = "";
    private long retryMs = FIRST_RETRY_MS, retryAt = System.nanoTime();
    private volatile Served served;
    private volatile String missing;
    private volatile boolean silent;
    private volatile Instant lastHeard;
    private volatile Throwable fault;
    private volatile boolean closed;

    /** Follow a model in the topics models and models.aliases; versions need no signature. */
    public ModelSubscriber(Map<String, ?> connection, String name) {
        this(connection, name, Options.defaults());
    }

    /** The same with a topic of models, keys (null: any version is taken) and a listener. */
    public ModelSubscriber(Map<String, ?> connection, String name, String modelsTopic, TrustedKeys trusted, Listener listener) {
        this(connection, name, Options.defaults().withModelsTopic(modelsTopic).withTrusted(trusted).withListener(listener));
    }

    /**
     * Follow a model, or stay with a version.
     *
     * @param connection options of a Kafka consumer: bootstrap.servers, and what security needs
     */
    public ModelSubscriber(Map<String, ?> connection, String name, Options options) {
        client = new HashMap<>(connection);
        client.putAll(Map.of("isolation.level", "read_committed", "allow.auto.create.topics", false, "enable.auto.commit", false));
        client.put("auto.offset.reset", "none"); // else a version that is gone would be waited for in silence
        client.put("fetch.max.wait.ms", 500); // how often a broker answers where nothing is new
        Object given = client.get("bootstrap.servers");
        servers = given instanceof List<?> list ? list.stream().map(String::valueOf).collect(Collectors.joining(",")) : String.valueOf(given);
        nobody = "no broker answered at " + servers;
        this.name = name;
        this.options = options;
        wants = name + "@" + (options.version() > 0 ? options.version() : options.alias());
        versions = new TopicPartition(options.modelsTopic(), 0);
        aliasesOf = new TopicPartition(options.modelsTopic() + ".aliases", 0);
        missing = "reading " + aliasesOf.topic();
        try {
            reader(aliasesOf).close(); // a wrong option is known now
        } catch (KafkaException wrong) {
            if (!isUnresolved(wrong)) throw wrong;
        }
        thread = new Thread(this::run, "subscriber-" + name);
        thread.setDaemon(true);
        thread.start();
    }

    /** Return the version in use, null before the first; never blocks. */
    public Model model() {
        if (fault != null) throw new IllegalStateException(ended(), fault);
        return served == null ? null : served.model;
    }

    /** Return why the wanted version is not in use, or that no broker answers, for people; else nothing. */
    public String missing() {
        return silent ? silence() : missing;
    }

    /** Return when a broker answered last; null before. */
    public Instant lastHeard() {
        return lastHeard;
    }

    /** Return how long ago the version in use was made; null without one, or where its record does not say. */
    public Duration age() {
        return readiness().age;
    }

    /** Return whether a version is in use, and how fresh it is; never blocks. */
    public Readiness readiness() {
        Served now = served;
        Duration age = now == null || now.made == null ? null : Duration.between(now.made, Instant.now());
        if (age != null && age.isNegative()) age = Duration.ZERO;
        return new Readiness(now != null && fault == null, now == null ? null : now.model.key(), fault == null ? missing() : ended(), lastHeard, age);
    }

    /**
     * Wait for the first version.
     *
     * @throws TimeoutException if there was none in time; the message says why
     */
    public synchronized Model waitReady(Duration timeout) throws InterruptedException, TimeoutException {
        long end = System.nanoTime() + timeout.toNanos();
        while (served == null && fault == null && !closed) {
            long left = (end - System.nanoTime()) / 1_000_000;
            if (left <= 0) throw new TimeoutException("no version of " + name + " within " + timeout.toMillis() + " ms: " + missing());
            wait(left);
        }
        Model first = model();
        if (first == null) throw new IllegalStateException("the subscriber of " + name + " was closed");
        return first;
    }

    /** Stop following; the version in use stays. */
    @Override
    public void close() {
        synchronized (this) {
            closed = true;
            notifyAll();
        }
        try {
            if (Thread.currentThread() != thread) thread.join(10_000);
        } catch (InterruptedException interrupted) {
            Thread.currentThread().interrupt();
        }
    }

    private String ended() {
        return "the subscriber of " + name + " ended: " + (fault instanceof RefusedMessage ? fault.getMessage() : fault.toString());
    }

    private void run() {
        while (!closed && fault == null) {
            try (Consumer<byte[], byte[]> one = reader(aliasesOf); Consumer<byte[], byte[]> other = reader(versions)) {
                follower = one;
                fetcher = other;
                answers = 0;
                try {
                    while (!closed && !(isThere(follower, aliasesOf) && isThere(fetcher, versions))) rest(PAUSE_MS);
                    aliases = new Aliases(name, options.alias());
                    if (read(follower, aliasesOf, this::note) && (options.version() > 0 ? stay() : follow())) return;
                    rest(PAUSE_MS);
                } finally {
                    hear();
                }
            } catch (KafkaException temporary) { // begin again: an offset that is gone, rights that are missing
                if (isUnresolved(temporary)) heard(false);
                if (!silent) lack(words(temporary));
                rest(backOff());
            } catch (RuntimeException | Error unexpected) {
                if (unexpected instanceof RefusedMessage) refuse(unexpected.getMessage());
                synchronized (this) {
                    fault = unexpected;
                    notifyAll();
                }
            }
        }
    }

    /** Return how long to rest after one more failure. */
    private long backOff() {
        long now = retryMs;
        retryMs = Math.min(2 * now, LONGEST_RETRY_MS);
        return now;
    }

    private synchronized void rest(long milliseconds) {
        try {
            if (!closed) wait(milliseconds);
        } catch (InterruptedException interrupted) {
            closed = true; // nobody but an application that ends interrupts this thread
        }
    }

    private Consumer<byte[], byte[]> reader(TopicPartition partition) {
        var consumer = new KafkaConsumer<>(client, new ByteArrayDeserializer(), new ByteArrayDeserializer());
        consumer.assign(List.of(partition));
        return consumer;
    }

    private static boolean isUnresolved(Throwable fault) {
        return fault != null && (String.valueOf(fault.getMessage()).startsWith("No resolvable bootstrap") || isUnresolved(fault.getCause()));
    }

    private String words(KafkaException fault) {
        if (isUnresolved(fault)) return nobody;
        String said = text(fault);
        return said.contains(options.modelsTopic()) ? said : "reading " + aliasesOf.topic() + ": " + said;
    }

    private static String text(Throwable fault) {
        return fault.getMessage() == null ? fault.toString() : fault.getMessage();
    }

    private String silence() {
        Served now = served;
        String seconds = BigDecimal.valueOf(options.quiet().toMillis(), 3).stripTrailingZeros().toPlainString();
        return nobody + " for " + seconds + " s" + (now == null ? "" : "; " + now.model.key() + " serves on");
    }

    /** Return whether a broker says that a topic is there; else say what is waited for. The client asks if it does not know. */
    private boolean isThere(Consumer<byte[], byte[]> consumer, TopicPartition partition) {
        try {
            var partitions = consumer.partitionsFor(partition.topic(), ANSWER);
            if (partitions != null && !partitions.isEmpty()) return true;
            hear();
            lack("topic " + partition.topic() + " does not exist at " + servers);
        } catch (org.apache.kafka.common.errors.TimeoutException late) {
            String why = hear() ? words(late) : nobody;
            if (!silent && served == null) lack(why);
        } catch (AuthorizationException | AuthenticationException denied) {
            heard(true);
            lack(words(denied) + (denied instanceof AuthorizationException ? "; missing is read on topic " + partition.topic() : ""));
        }
        return false;
    }

    /** Note whether a broker answered since the last call. */
    private boolean hear() {
        double count = Stream.of(follower, fetcher).flatMap(one -> one.metrics().values().stream())
            .filter(one -> one.metricName().name().equals("response-total") && one.metricName().group().equals("consumer-metrics"))
            .mapToDouble(one -> ((Number) one.metricValue()).doubleValue()).sum();
        boolean grown = count > answers;
        answers = count;
        return heard(grown);
    }

    private boolean heard(boolean heard) {
        if (heard) {
            heardAt = System.nanoTime();
            lastHeard = Instant.now();
            boolean wasSilent = silent;
            silent = false;
            if (wasSilent) tell(options.listener()::hears);
        } else if (!silent && System.nanoTime() - heardAt > options.quiet().toNanos()) {
            silent = true;
            tell(() -> options.listener().waits("waiting for " + wants + ": " + silence()));
        }
        return heard;
    }

    private ConsumerRecords<byte[], byte[]> polled(Consumer<byte[], byte[]> consumer) {
        var records = consumer.poll(POLL);
        hear();
        return records;
    }

    private void note(ConsumerRecord<byte[], byte[]> record) {
        try {
            aliases.note(record);
        } catch (RefusedMessage unreadable) {
            refuse(unreadable.getMessage());
        }
    }

    /** Read a topic to its end; return false if that is not possible now. */
    private boolean read(Consumer<byte[], byte[]> consumer, TopicPartition partition, java.util.function.Consumer<ConsumerRecord<byte[], byte[]>> each) {
        consumer.seekToBeginning(List.of(partition));
        do polled(consumer).forEach(each);
        while (!closed && isThere(consumer, partition) && consumer.currentLag(partition).orElse(1) > 0);
        return !closed && consumer.currentLag(partition).orElse(1) == 0;
    }

    /** Use what is wanted until the subscriber is closed, or the topic of aliases is made anew. */
    private boolean follow() {
        retryMs = FIRST_RETRY_MS;
        do {
            settle();
            polled(follower).forEach(this::note);
        } while (!closed && isThere(follower, aliasesOf));
        return closed;
    }

    /** Load the version of a number; a refusal ends the subscriber. */
    private boolean stay() {
        aliases.mustHave(options.version(), aliasesOf.topic());
        Chain chain = new Chain(name, options.version());
        if (!read(fetcher, versions, chain::note)) return false;
        Aliases.Alias found = chain.found(aliases, versions.topic());
        ConsumerRecord<byte[], byte[]> record = fetched(found.offset());
        if (record != null) load(record, found);
        return record != null;
    }

    /** Load the version that is wanted, unless it is in use, was refused, or its next attempt is not due. */
    private void settle() {
        Aliases.Alias wanted = aliases.wanted();
        Served now = served;
        if (wanted == null) lack(aliasesOf.topic() + " " + aliases.missing());
        else if (wanted.equals(settled)) missing = outcome;
        else if (now != null && now.model.sha256().equals(wanted.sha256())) settle(wanted, ""); // an alias moved away and back
        else if (System.nanoTime() - retryAt >= 0 && !attempt(wanted)) retryAt = System.nanoTime() + backOff() * 1_000_000;
    }

    /** Return whether the version was loaded or refused; else it is to be tried again. */
    private boolean attempt(Aliases.Alias wanted) {
        Instant before = lastHeard;
        if (!isThere(fetcher, versions)) return false;
        ConsumerRecord<byte[], byte[]> record = fetched(wanted.offset());
        if (record == null) {
            boolean answered = lastHeard != before;
            String place = versions.topic() + "[0]@" + wanted.offset();
            if (answered && !closed) lack("there is no record at " + place + ", where " + name + "@" + wanted.number() + " should be");
            else if (!silent && !closed) lack(nobody);
            return false;
        }
        try {
            load(record, wanted);
            settle(wanted, "");
        } catch (RefusedMessage refused) {
            settle(wanted, refused.getMessage());
            refuse(refused.getMessage());
        }
        return true;
    }

    private void settle(Aliases.Alias wanted, String why) {
        settled = wanted;
        outcome = missing = why;
        retryMs = FIRST_RETRY_MS;
    }

    /** Return the record at an offset; null if there is none, or none came in time. */
    private ConsumerRecord<byte[], byte[]> fetched(long offset) {
        fetcher.seek(versions, offset);
        try {
            for (long end = System.nanoTime() + FETCH.toNanos(); System.nanoTime() < end && !closed; )
                for (var record : polled(fetcher)) return record.offset() == offset ? record : null;
        } catch (OffsetOutOfRangeException gone) {
            heard(true);
        }
        return null;
    }

    /** Use what a record holds, if it and the listener allow. */
    private void load(ConsumerRecord<byte[], byte[]> record, Aliases.Alias wanted) {
        try {
            Model next = aliases.checked(record, wanted, options.trusted());
            String why = declined.computeIfAbsent(wanted.sha256(), first -> declined(next));
            Message.must(why == null, why);
            synchronized (this) {
                served = new Served(next, made(Values.header(record, "streamsvm.time")));
                missing = "";
                notifyAll();
            }
            tell(() -> options.listener().serves(next));
        } catch (RefusedMessage refused) {
            throw new RefusedMessage("refused " + name + "@" + wanted.number() + ": " + refused.getMessage());
        }
    }

    /** Return why the listener refuses a version; null if it does not. */
    private String declined(Model next) {
        try {
            options.listener().check(next);
            return null;
        } catch (Exception refusal) {
            return text(refusal);
        }
    }

    private static Instant made(String time) {
        try {
            return time == null ? null : OffsetDateTime.parse(time).toInstant();
        } catch (DateTimeException notATime) {
            return null;
        }
    }

    private void refuse(String why) {
        if (!why.equals(refusal)) tell(() -> options.listener().refused(why));
        refusal = why;
    }

    private void lack(String why) {
        if (!why.equals(missing)) tell(() -> options.listener().waits("waiting for " + wants + ": " + why));
        missing = why;
    }

    private void tell(Runnable what) {
        try {
            what.run();
        } catch (RuntimeException fault) {
            LOG.log(System.Logger.Level.ERROR, "the listener of " + name + " failed", fault);
        }
    }
}
