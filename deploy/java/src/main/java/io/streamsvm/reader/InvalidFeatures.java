package io.streamsvm.reader;

/** A point or a raw event that a version cannot score; the text names the feature or the field. */
public final class InvalidFeatures extends IllegalArgumentException {
    private static final long serialVersionUID = 1;

    InvalidFeatures(String why) {
        super(why);
    }
}
