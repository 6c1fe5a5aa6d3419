package io.streamsvm.reader;

import java.time.Duration;
import java.util.Set;
import java.util.regex.Pattern;

/** What a subscriber follows, and whom it tells. Immutable: each method returns another one. */
public final class Options {
    private static final Pattern ALIAS = Pattern.compile("[A-Za-z][A-Za-z0-9._-]{0,99}");
    static final Set<String> RESERVED = Set.of("head", "owner", "retired", "erased");

    final String modelsTopic, alias;
    final int version;
    final TrustedKeys trusted;
    final Duration quiet;
    final ModelSubscriber.Listener listener;

    private Options(String modelsTopic, String alias, int version, TrustedKeys trusted, Duration quiet, ModelSubscriber.Listener listener) {
        this.modelsTopic = modelsTopic;
        this.alias = alias;
        this.version = version;
        this.trusted = trusted;
        this.quiet = quiet;
        this.listener = listener;
    }

    /** The alias current in the topics models and models.aliases; no signature; 30 s; a listener that logs. */
    public static Options defaults() {
        return new Options("models", "current", 0, null, Duration.ofSeconds(30), new ModelSubscriber.Listener() {});
    }

    /** The topic of versions; the aliases are in the topic of this name + .aliases. */
    public Options withModelsTopic(String topic) {
        return new Options(topic, alias, version, trusted, quiet, listener);
    }

    /** The alias to follow. */
    public Options withAlias(String name) {
        if (!ALIAS.matcher(name).matches() || RESERVED.contains(name))
            throw new IllegalArgumentException(Values.quoted(name) + " is not a valid alias. An alias is a letter followed by letters, digits, dots or dashes, and not "
                + "erased, head, owner or retired.");
        return new Options(modelsTopic, name, version, trusted, quiet, listener);
    }

    /** Stay with the version of this number, whatever aliases name. */
    public Options withVersion(int number) {
        if (number < 1) throw new IllegalArgumentException(number + " is not a version: give 1, 2, ...");
        return new Options(modelsTopic, alias, number, trusted, quiet, listener);
    }

    /** Keys, one of which must have signed a version; null: any version is taken. */
    public Options withTrusted(TrustedKeys keys) {
        return new Options(modelsTopic, alias, version, keys, quiet, listener);
    }

    /** How long no broker may answer until the listener is told. */
    public Options withQuiet(Duration limit) {
        if (limit.isNegative() || limit.isZero()) throw new IllegalArgumentException("quiet must be longer than 0 s, but is " + limit);
        return new Options(modelsTopic, alias, version, trusted, limit, listener);
    }

    /** Who hears of versions, refusals and waiting. */
    public Options withListener(ModelSubscriber.Listener hearing) {
        return new Options(modelsTopic, alias, version, trusted, quiet, hearing);
    }
}
