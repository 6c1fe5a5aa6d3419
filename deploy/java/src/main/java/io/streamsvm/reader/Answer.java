package io.streamsvm.reader;

import com.fasterxml.jackson.databind.JsonNode;

/**
 * What a version says of a point.
 *
 * @param decision of two labels the one decision value, of more a value for each label
 * @param label as the records have it: a number, a text or a boolean
 * @param probability of two labels that of the second one, of more that of each; null where the version has none
 */
public record Answer(double[] decision, JsonNode label, double[] probability) {
    /** Return the decision value of a version of two labels. */
    public double score() {
        if (decision.length > 1) throw new IllegalStateException("the version has " + decision.length + " labels: use decision()");
        return decision[0];
    }
}
