package io.streamsvm.reader;

import com.fasterxml.jackson.databind.JsonNode;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;

/** The golden files of tests/golden. */
final class Golden {
    private static final Path FOLDER = Path.of(System.getProperty("golden"));

    private Golden() {}

    static byte[] bytes(String name) throws IOException {
        return Files.readAllBytes(FOLDER.resolve(name));
    }

    static JsonNode json(String name) throws IOException {
        return Model.JSON.readTree(bytes(name));
    }
}
