package io.streamsvm.reader;

/** A version, or another record, must not be used; the text says why. */
public final class RefusedMessage extends RuntimeException {
    private static final long serialVersionUID = 1;

    RefusedMessage(String why) {
        super(why);
    }
}
