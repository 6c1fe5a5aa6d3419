package io.streamsvm.reader;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.Arrays;
import java.util.Objects;

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

    /** Return the label as Long, Double, Boolean or String. */
    public Object labelValue() {
        return Values.plain(label);
    }

    /** Return the label as text. */
    public String labelText() {
        return label.asText();
    }

    @Override
    public boolean equals(Object other) {
        return other instanceof Answer that && Arrays.equals(decision, that.decision) && label.equals(that.label) && Arrays.equals(probability, that.probability);
    }

    @Override
    public int hashCode() {
        return Objects.hash(Arrays.hashCode(decision), label, Arrays.hashCode(probability));
    }

    @Override
    public String toString() {
        return "Answer(" + label + ", decision " + shown(decision) + (probability == null ? ")" : ", probability " + shown(probability) + ")");
    }

    private static String shown(double[] values) {
        return values.length == 1 ? Double.toString(values[0]) : Arrays.toString(values);
    }
}
