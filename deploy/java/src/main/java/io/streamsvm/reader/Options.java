package io.streamsvm.reader;

import java.time.Duration;
import java.util.Set;

/**
 * What a subscriber follows, and whom it tells: {@code Options.defaults().withAlias("stable")}.
 *
 * @param modelsTopic the topic of versions; the aliases are in the topic of this name + .aliases
 * @param alias the alias to follow
 * @param version stay with the version of this number, whatever aliases name; 0: follow the alias
 * @param trusted keys, one of which must have signed a version; null: any version is taken
 * @param quiet how long no broker may answer until the listener is told
 * @param listener hears of versions, refusals and waiting
 */
public record Options(String modelsTopic, String alias, int version, TrustedKeys trusted, Duration quiet, ModelSubscriber.Listener listener) {
    static final Set<String> RESERVED = Set.of("head", "owner", "retired", "erased");

    /** Check the options. */
    public Options {
        if (!alias.matches("[A-Za-z][A-Za-z0-9._-]{0,99}") || RESERVED.contains(alias))
            throw new IllegalArgumentException(Values.quoted(alias) + " is not a valid alias. An alias is a letter followed by letters, digits, dots or dashes, and not "
                + "erased, head, owner or retired.");
        if (version < 0) throw new IllegalArgumentException("a version is 1, 2, ...");
        if (quiet.isNegative() || quiet.isZero()) throw new IllegalArgumentException("quiet must be longer than 0 s, but is " + quiet);
    }

    /** The alias current in the topics models and models.aliases; no signature; 30 s; a listener that logs. */
    public static Options defaults() {
        return new Options("models", "current", 0, null, Duration.ofSeconds(30), new ModelSubscriber.Listener() {});
    }

    public Options withModelsTopic(String topic) { return new Options(topic, alias, version, trusted, quiet, listener); }
    public Options withAlias(String name) { return new Options(modelsTopic, name, version, trusted, quiet, listener); }
    public Options withVersion(int number) { return new Options(modelsTopic, alias, number > 0 ? number : -1, trusted, quiet, listener); }
    public Options withTrusted(TrustedKeys keys) { return new Options(modelsTopic, alias, version, keys, quiet, listener); }
    public Options withQuiet(Duration limit) { return new Options(modelsTopic, alias, version, trusted, limit, listener); }
    public Options withListener(ModelSubscriber.Listener hearing) { return new Options(modelsTopic, alias, version, trusted, quiet, hearing); }
}
