package io.streamsvm.reader;

import java.util.List;

/**
 * Why a decision value is what it is: baseline, what the fields add, and rest sum to it.
 *
 * @param baseline the decision value of the mean row
 * @param fields those that add most, the largest first
 * @param rest what all other fields add together
 */
public record Reasons(double baseline, List<Field> fields, double rest) {
    /**
     * What one field adds.
     *
     * @param field its path in the event, or the name of the feature
     * @param adds to the decision value
     */
    public record Field(String field, double adds) {}
}
