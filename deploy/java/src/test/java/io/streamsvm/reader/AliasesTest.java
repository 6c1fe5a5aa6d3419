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

    @Test
    void onlyWhatATrustedKeySignedIsTaken() throws GeneralSecurityException {
        KeyPair own = KeyPairGenerator.getInstance("Ed25519").generateKeyPair(), stranger = KeyPairGenerator.getInstance("Ed25519").generateKeyPair();
        String body = Base64.getMimeEncoder().encodeToString(own.getPublic().getEncoded());
        TrustedKeys trusted = TrustedKeys.of("-----BEGIN PUBLIC KEY-----\n" + body + "\n-----END PUBLIC KEY-----\n");
        assertEquals(42, aliases.checked(record("pulsar@42", value, signedBy(own)), alias, trusted).version());
        for (Map<String, String> headers : java.util.List.of(signedBy(stranger), Map.of("streamsvm.sha256", alias.sha256()),
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
