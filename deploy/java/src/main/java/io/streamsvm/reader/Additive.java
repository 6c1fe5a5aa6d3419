package io.streamsvm.reader;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.List;
import java.util.stream.*;

/** Curves and surfaces of an additive machine, over scaled features: linear between their knots, constant beyond them. */
record Additive(List<Curve> curves, List<Surface> surfaces) {
    /** Of one feature; without knots where nothing is read of it. */
    record Curve(double[] knots, double[] values) {}

    /** Of two features by their indexes; the values have a row for each knot of the first. */
    record Surface(int[] features, double[] rows, double[] columns, double[][] values) {}

    /** Where a value lies: the last knot not beyond it, and how far it is towards the next. */
    private record Place(int at, double share) {
        static Place of(double value, double[] knots) {
            double inside = Math.min(Math.max(value, knots[0]), knots[knots.length - 1]);
            int at = 0;
            while (at < knots.length - 2 && inside >= knots[at + 1]) at++;
            return new Place(at, (inside - knots[at]) / (knots[at + 1] - knots[at]));
        }

        double read(double[] values) {
            return between(values[at], values[at + 1]);
        }

        double between(double low, double high) {
            return low * (1 - share) + high * share;
        }
    }

    static Additive of(JsonNode machine) {
        List<Curve> curves = Values.stream(machine.get("curves")).map(one -> new Curve(Values.array(one.get("knots")), Values.array(one.get("values")))).toList();
        return new Additive(curves, Values.stream(machine.get("surfaces")).map(one -> new Surface(
            Values.stream(one.get("features")).mapToInt(JsonNode::asInt).toArray(), Values.array(one.get("rows")), Values.array(one.get("columns")),
            Values.stream(one.get("values")).map(Values::array).toArray(double[][]::new))).toList());
    }

    /** Return what each curve, then each surface, adds. */
    double[] terms(double[] z) {
        IntStream each = IntStream.range(0, curves.size());
        DoubleStream ofCurves = each.mapToDouble(j -> curves.get(j).knots.length == 0 ? 0 : Place.of(z[j], curves.get(j).knots).read(curves.get(j).values));
        return DoubleStream.concat(ofCurves, surfaces.stream().mapToDouble(one -> read(one, z))).toArray();
    }

    private static double read(Surface surface, double[] z) {
        Place row = Place.of(z[surface.features[0]], surface.rows), column = Place.of(z[surface.features[1]], surface.columns);
        return row.between(column.read(surface.values[row.at]), column.read(surface.values[row.at + 1]));
    }
}
