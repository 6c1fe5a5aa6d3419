package io.streamsvm.reader;

import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeoutException;
import org.apache.kafka.clients.consumer.Consumer;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetOutOfRangeException;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * Keeps the version that {@code name@current} names loaded, in a thread of its own; a pin comes before it.
 *
 * <p>It joins no consumer group, and reads committed records only. A version whose SHA-256, signature or probes are wrong
 * never replaces the one in use. Make one at the start, and take {@link #model()} once for each request: the next version
 * may come in between.
 */
public final class ModelSubscriber implements AutoCloseable {
    /** What is told in the subscriber's thread, which waits for it. By default refusals and waiting are logged. */
    public interface Listener {
        /** A version is in use from now on. */
        default void serves(Model model) {}

        /** A record was refused; the version in use stays. */
        default void refused(String why) {
            LOG.log(System.Logger.Level.WARNING, why);
        }

        /** No version is in use, for another reason than before. */
        default void waits(String why) {
            LOG.log(System.Logger.Level.INFO, why);
        }
    }

    private static final System.Logger LOG = System.getLogger(ModelSubscriber.class.getName());
    private static final Duration POLL = Duration.ofMillis(200), FETCH = Duration.ofSeconds(10);
    private static final long FIRST_RETRY_MS = 100, LONGEST_RETRY_MS = 5_000;

    private final Map<String, Object> options;
    private final String name;
    private final TopicPartition versions, aliasesOf;
    private final TrustedKeys trusted;
    private final Listener listener;
    private final Thread thread;
    private Aliases aliases;
    private Aliases.Alias settled; // what was loaded or refused last: it is not fetched again
    private long retryMs = FIRST_RETRY_MS, retryAt;
    private String refusal = "";
    private volatile Model model;
    private volatile String missing;
    private volatile Throwable fault;
    private volatile boolean closed;

    /** Follow a model in the topics models and models.aliases; versions need no signature. */
    public ModelSubscriber(Map<String, ?> connection, String name) {
        this(connection, name, "models", null, new Listener() {});
    }

    /**
     * Follow a model.
     *
     * @param connection options of a Kafka consumer: bootstrap.servers, and what security needs
     * @param modelsTopic the aliases are in the topic of this name + .aliases
     * @param trusted keys, one of which must have signed a version; null: any version is taken
     */
    public ModelSubscriber(Map<String, ?> connection, String name, String modelsTopic, TrustedKeys trusted, Listener listener) {
        options = new HashMap<>(connection);
        options.put("isolation.level", "read_committed");
        options.put("auto.offset.reset", "none"); // else a version that is gone would be waited for in silence
        options.put("allow.auto.create.topics", false);
        options.put("enable.auto.commit", false);
        this.name = name;
        this.trusted = trusted;
        this.listener = listener;
        versions = new TopicPartition(modelsTopic, 0);
        aliasesOf = new TopicPartition(modelsTopic + ".aliases", 0);
        missing = "reading " + aliasesOf.topic();
        reader(aliasesOf).close(); // a wrong option is known now
        thread = new Thread(this::run, "subscriber-" + name);
        thread.setDaemon(true);
        thread.start();
    }

    /** Return the version in use, null before the first; never blocks. */
    public Model model() {
        raise();
        return model;
    }

    /** Return why the wanted version is not in use, for people; empty if it is. */
    public String missing() {
        return missing;
    }

    /**
     * Wait for the first version.
     *
     * @throws TimeoutException if there was none in time; the message says why
     */
    public synchronized Model waitReady(Duration timeout) throws InterruptedException, TimeoutException {
        long end = System.nanoTime() + timeout.toNanos();
        while (model == null && fault == null && !closed) {
            long left = (end - System.nanoTime()) / 1_000_000;
            if (left <= 0) throw new TimeoutException("no version of " + name + " within " + timeout.toMillis() + " ms: " + missing);
            wait(left);
        }
        raise();
        if (model == null) throw new IllegalStateException("the subscriber of " + name + " was closed");
        return model;
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

    private void raise() {
        if (fault != null) throw new IllegalStateException("the subscriber of " + name + " ended: " + fault, fault);
    }

    private void run() {
        long pause = FIRST_RETRY_MS;
        while (!closed) {
            try (Consumer<byte[], byte[]> follower = reader(aliasesOf); Consumer<byte[], byte[]> fetcher = reader(versions)) {
                follow(follower, fetcher);
            } catch (KafkaException temporary) { // begin again: a topic made anew, an offset that is gone, rights that are missing
                lack("reading " + aliasesOf.topic() + " was interrupted, and is tried again: " + temporary.getMessage());
                rest(pause);
                pause = Math.min(2 * pause, LONGEST_RETRY_MS);
            } catch (RuntimeException | Error unexpected) {
                end(unexpected);
                return;
            }
        }
    }

    private synchronized void end(Throwable unexpected) {
        fault = unexpected;
        notifyAll();
    }

    private synchronized void rest(long milliseconds) {
        try {
            if (!closed) wait(milliseconds);
        } catch (InterruptedException interrupted) {
            closed = true; // nobody but an application that ends interrupts this thread
        }
    }

    private Consumer<byte[], byte[]> reader(TopicPartition partition) {
        var consumer = new KafkaConsumer<>(options, new ByteArrayDeserializer(), new ByteArrayDeserializer());
        consumer.assign(List.of(partition));
        return consumer;
    }

    private void follow(Consumer<byte[], byte[]> follower, Consumer<byte[], byte[]> fetcher) {
        aliases = new Aliases(name);
        follower.seekToBeginning(List.of(aliasesOf));
        boolean caughtUp = false;
        while (!closed) {
            for (var record : follower.poll(POLL)) {
                try {
                    aliases.note(record);
                } catch (RefusedMessage unreadable) {
                    refuse(unreadable.getMessage());
                }
            }
            caughtUp = caughtUp || follower.currentLag(aliasesOf).orElse(1) == 0;
            if (caughtUp) settle(fetcher);
        }
    }

    /** Load the version that is wanted, unless it is in use, was refused, or its next attempt is not due. */
    private void settle(Consumer<byte[], byte[]> fetcher) {
        Aliases.Alias wanted = aliases.wanted();
        if (wanted == null) lack(aliases.missing());
        if (wanted == null || wanted.equals(settled) || System.nanoTime() - retryAt < 0) return;
        if (model != null && model.sha256().equals(wanted.sha256())) { // an alias moved away and back
            settled = wanted;
            missing = "";
            return;
        }
        try {
            ConsumerRecord<byte[], byte[]> record = fetched(fetcher, wanted.offset());
            if (record == null) {
                lack("there is no record at " + versions.topic() + "[0]@" + wanted.offset() + ", where " + name + "@" + wanted.number() + " should be");
                retryAt = System.nanoTime() + retryMs * 1_000_000;
                retryMs = Math.min(2 * retryMs, LONGEST_RETRY_MS);
                return;
            }
            settled = wanted;
            retryMs = FIRST_RETRY_MS;
            swap(aliases.checked(record, wanted, trusted));
        } catch (RefusedMessage refused) {
            String why = "refused " + name + "@" + wanted.number() + ": " + refused.getMessage();
            missing = why;
            refuse(why);
        }
    }

    /** Return the record at an offset; null if there is none, or none came in time. */
    private ConsumerRecord<byte[], byte[]> fetched(Consumer<byte[], byte[]> fetcher, long offset) {
        fetcher.seek(versions, offset);
        try {
            for (long end = System.nanoTime() + FETCH.toNanos(); System.nanoTime() < end && !closed; )
                for (var record : fetcher.poll(POLL)) return record.offset() == offset ? record : null;
        } catch (OffsetOutOfRangeException gone) {
            return null;
        }
        return null;
    }

    private void swap(Model next) {
        synchronized (this) {
            model = next;
            missing = "";
            notifyAll();
        }
        tell(() -> listener.serves(next));
    }

    private void refuse(String why) {
        if (!why.equals(refusal)) tell(() -> listener.refused(why));
        refusal = why;
    }

    private void lack(String why) {
        if (!why.equals(missing)) tell(() -> listener.waits("waiting for " + name + "@current: " + why));
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
