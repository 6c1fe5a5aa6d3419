package io.streamsvm.reader;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.security.GeneralSecurityException;
import java.security.KeyPair;
import java.security.KeyPairGenerator;
import java.security.Signature;
import java.util.Base64;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/** Aliases, pins, and what is refused. */
class AliasesTest {
    private final Aliases aliases = new Aliases("pulsar", "current");
    private byte[] value;
    private Aliases.Alias alias;

    @BeforeEach
    void note() throws IOException {
        value = Golden.bytes("model-1-linear.json");
        alias = new Aliases.Alias(42, Model.sha256(value), 5);
        note("pulsar@current", alias);
    }

    private void note(String key, Object said) throws IOException {
        byte[] text = said == null ? null : said instanceof String raw ? raw.getBytes() : Model.JSON.writeValueAsBytes(said);
        aliases.note(new ConsumerRecord<>("models.aliases", 0, 0, key.getBytes(), text));
    }

    private ConsumerRecord<byte[], byte[]> record(String key, byte[] bytes, Map<String, String> headers) {
        var record = new ConsumerRecord<byte[], byte[]>("models", 0, 5, key.getBytes(), bytes);
        headers.forEach((name, text) -> record.headers().add(name, text.getBytes()));
        return record;
    }

    @Test
    void aPinComesBeforeWhatWasPublishedLastUntilItIsRemoved() throws IOException {
        var pinned = new Aliases.Alias(41, alias.sha256(), 3);
        assertEquals(alias, aliases.wanted());
        note("pulsar@current#pin", pinned);
        note("quasar@current", new Aliases.Alias(7, alias.sha256(), 9));
        assertEquals(pinned, aliases.wanted());
        note("pulsar@current#pin", null);
        assertEquals(alias, aliases.wanted());
    }

    @Test
    void anAliasThatCannotBeReadChangesNothing() {
        for (String broken : new String[] {"{", "[]", "{\"number\": 0, \"sha256\": \"a\", \"offset\": 5}", "{\"number\": 1}"})
            assertThrows(RefusedMessage.class, () -> note("pulsar@current", broken), broken);
        assertEquals(alias, aliases.wanted());
    }

    @Test
    void whyNothingIsWantedIsSaid() throws IOException {
        note("pulsar@current", null);
        assertNull(aliases.wanted());
        assertEquals("has no alias pulsar@current", aliases.missing());
        note("pulsar@head", Map.of("number", 1, "gate", Map.of("outcome", "refused", "why", "it knows nothing")));
        assertTrue(aliases.missing().endsWith("version 1, the newest, was held back, because it knows nothing"));
    }

    @Test
    void whatTheAliasNamesBecomesAModelAndNothingElseDoes() {
        Map<String, String> right = Map.of("streamsvm.sha256", alias.sha256());
        assertEquals(42, aliases.checked(record("pulsar@42", value, right), alias, null).version());
        byte[] another = (new String(value) + " ").getBytes();
        assertThrows(RefusedMessage.class, () -> aliases.checked(record("pulsar@42", null, right), alias, null));
        assertThrows(RefusedMessage.class, () -> aliases.checked(record("pulsar@41", value, right), alias, null));
        assertThrows(RefusedMessage.class, () -> aliases.checked(record("pulsar@42", value, Map.of()), alias, null));
        assertThrows(RefusedMessage.class, () -> aliases.checked(record("pulsar@42", another, right), alias, null));
        Map<String, String> ofTheOther = Map.of("streamsvm.sha256", Model.sha256(another));
        assertThrows(RefusedMessage.class, () -> aliases.checked(record("pulsar@42", another, ofTheOther), alias, null));
    }

    private byte[] version(int number, String parent, Map<Integer, String> links) throws IOException {
        var linked = links.entrySet().stream().map(link -> Map.of("number", link.getKey(), "sha256", link.getValue())).toList();
        Map<String, Object> lineage = new HashMap<>(Map.of("links", linked));
        lineage.put("parent", parent);
        return Model.JSON.writeValueAsBytes(Map.of("name", "pulsar", "version", number, "lineage", lineage));
    }

    private static void note(Chain chain, long offset, int number, byte[] value) {
        chain.note(new ConsumerRecord<>("models", 0, offset, ("pulsar@" + number).getBytes(), value));
    }

    private String lost(int number, Chain chain) {
        return assertThrows(RefusedMessage.class, () -> chain.found(aliases, "models")).getMessage();
    }

    @Test
    void aNumberIsTheVersionThatTheHashesLeadTo() throws IOException {
        byte[] first = version(1, "", Map.of()), second = version(2, Model.sha256(first), Map.of()), forged = version(2, "f".repeat(64), Map.of());
        byte[] third = version(3, Model.sha256(second), Map.of()), fourth = version(4, Model.sha256(third), Map.of(2, Model.sha256(second)));
        note("pulsar@head", new Aliases.Alias(4, Model.sha256(fourth), 9));
        note("pulsar@old", new Aliases.Alias(2, Model.sha256(forged), 1));
        for (byte[] between : new byte[][] {third, null}) {
            Chain chain = new Chain("pulsar", 2);
            note(chain, 1, 2, forged);
            note(chain, 2, 2, second);
            if (between != null) note(chain, 3, 3, between);
            note(chain, 4, 4, fourth);
            note(chain, 5, 2, second);
            note(chain, 6, 5, second);
            assertEquals(new Aliases.Alias(2, Model.sha256(second), 2), chain.found(aliases, "models"));
        }
        Chain gone = new Chain("pulsar", 2), alone = new Chain("pulsar", 1);
        note(gone, 4, 4, fourth);
        assertEquals("pulsar@2, which is " + Model.sha256(second) + ", is not in models; the newest is 4", lost(2, gone));
        note(gone, 5, 2, version(2, "", Map.of()));
        assertTrue(lost(2, gone).startsWith("pulsar@2 has the SHA-256 " + Model.sha256(second) + ", but models no longer holds that record"));
        note(alone, 1, 1, first);
        assertEquals("pulsar@1 may be a forgery: no later version that models still holds names its hash. Values under its number: "
            + Model.sha256(first) + " at offset 1", lost(1, alone));
    }

    @Test
    void aNumberThatIsUnknownOrRetiredIsRefused() throws IOException {
        note("pulsar@head", new Aliases.Alias(50, alias.sha256(), 9));
        note("pulsar@retired", Map.of("below", 45, "kept", List.of(30), "others", List.of(47)));
        for (int number : new int[] {30, 42, 45, 50}) aliases.mustHave(number, "models.aliases");
        for (int number : new int[] {1, 44, 47})
            assertEquals("version " + number + " of pulsar was retired; the newest is 50",
                assertThrows(RefusedMessage.class, () -> aliases.mustHave(number, "models.aliases")).getMessage());
        assertEquals("pulsar has no version 51; the newest is 50", assertThrows(RefusedMessage.class, () -> aliases.mustHave(51, "")).getMessage());
        assertEquals("quasar has no version 1; models.aliases names no version of quasar",
            assertThrows(RefusedMessage.class, () -> new Aliases("quasar", "current").mustHave(1, "models.aliases")).getMessage());
    }

    @Test
    void anAliasOfOnesOwnHasNoPin() throws IOException {
        Aliases own = new Aliases("pulsar", "stable");
        for (String key : List.of("pulsar@current", "pulsar@current#pin", "pulsar@stable#pin", "pulsar@head", "quasar@stable"))
            own.note(new ConsumerRecord<>("models.aliases", 0, 0, key.getBytes(), Model.JSON.writeValueAsBytes(alias)));
        assertNull(own.wanted());
        assertEquals("has no alias pulsar@stable", own.missing());
        own.note(new ConsumerRecord<>("models.aliases", 0, 0, "pulsar@stable".getBytes(), Model.JSON.writeValueAsBytes(alias)));
        assertEquals(alias, own.wanted());
        for (String wrong : List.of("head", "a b", "", "1st")) assertThrows(IllegalArgumentException.class, () -> Options.defaults().withAlias(wrong));
    }

    @Test
    void onlyWhatATrustedKeySignedIsTaken() throws GeneralSecurityException {
        KeyPair own = KeyPairGenerator.getInstance("Ed25519").generateKeyPair(), stranger = KeyPairGenerator.getInstance("Ed25519").generateKeyPair();
        String body = Base64.getMimeEncoder().encodeToString(own.getPublic().getEncoded());
        TrustedKeys trusted = TrustedKeys.of("-----BEGIN PUBLIC KEY-----\n" + body + "\n-----END PUBLIC KEY-----\n");
        assertEquals(42, aliases.checked(record("pulsar@42", value, signedBy(own)), alias, trusted).version());
        for (Map<String, String> headers : List.of(signedBy(stranger), Map.of("streamsvm.sha256", alias.sha256()),
                Map.of("streamsvm.sha256", alias.sha256(), "streamsvm.signature", "?"))) {
            var refused = assertThrows(RefusedMessage.class, () -> aliases.checked(record("pulsar@42", value, headers), alias, trusted));
            assertEquals("it is signed by none of the trusted keys", refused.getMessage());
        }
        assertThrows(IllegalArgumentException.class, () -> TrustedKeys.of("no key"));
    }

    private Map<String, String> signedBy(KeyPair keys) throws GeneralSecurityException {
        Signature signer = Signature.getInstance("Ed25519");
        signer.initSign(keys.getPrivate());
        signer.update(("streamsvm.model.signature/1\npulsar@42\n" + alias.sha256() + "\n").getBytes());
        return Map.of("streamsvm.sha256", alias.sha256(), "streamsvm.signature", Base64.getEncoder().encodeToString(signer.sign()));
    }
}
