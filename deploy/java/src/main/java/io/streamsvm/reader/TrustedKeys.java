package io.streamsvm.reader;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.*;
import java.security.*;
import java.security.spec.X509EncodedKeySpec;
import java.util.*;
import java.util.regex.*;

/** Public keys (Ed25519), one of which must have signed a version. */
public final class TrustedKeys {
    private static final Pattern PEM = Pattern.compile("-----BEGIN PUBLIC KEY-----([^-]+)-----END PUBLIC KEY-----");
    private static final int SIGNATURE_BYTES = 64;

    private final List<PublicKey> keys = new ArrayList<>();

    private TrustedKeys(String pem, String where) {
        Matcher found = PEM.matcher(pem);
        try {
            while (found.find())
                keys.add(KeyFactory.getInstance("Ed25519").generatePublic(new X509EncodedKeySpec(Base64.getMimeDecoder().decode(found.group(1)))));
        } catch (GeneralSecurityException | IllegalArgumentException fault) {
            throw new IllegalArgumentException(where + " holds something that is not an Ed25519 public key. Export the public key: openssl pkey -in PRIVATE.pem -pubout", fault);
        }
        if (keys.isEmpty()) throw new IllegalArgumentException(where + " holds no public key in PEM format");
    }

    /** Return the keys of a text: PEM, one public key after the other. */
    public static TrustedKeys of(String pem) {
        return new TrustedKeys(pem, "the text");
    }

    /** Return the keys of a file: PEM, one public key after the other. */
    public static TrustedKeys of(Path file) throws IOException {
        return new TrustedKeys(Files.readString(file), file.toString());
    }

    /** Tell whether one of the keys signed the version of a key, name@number, and of a SHA-256; the header may be null. */
    boolean signed(String key, String sha256, String header) {
        try {
            byte[] signature = Base64.getDecoder().decode(header == null ? "" : header);
            for (PublicKey one : keys) {
                Signature verifier = Signature.getInstance("Ed25519");
                verifier.initVerify(one);
                verifier.update(("streamsvm.model.signature/1\n" + key + "\n" + sha256 + "\n").getBytes(StandardCharsets.UTF_8));
                if (signature.length == SIGNATURE_BYTES && verifier.verify(signature)) return true;
            }
            return false;
        } catch (GeneralSecurityException | IllegalArgumentException notASignature) {
            return false;
        }
    }
}
