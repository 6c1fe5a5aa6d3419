package io.streamsvm.reader;

import java.math.*;
import java.nio.ByteBuffer;
import java.time.*;
import java.time.temporal.ChronoUnit;
import java.util.*;
import java.util.stream.Stream;
import org.apache.avro.*;
import org.apache.avro.generic.*;

/**
 * Records of Avro, generic or of generated classes, as the events that a trainer reads of the same bytes: decimals are numbers,
 * dates and times the numbers that Avro writes, enums texts, and a float is its exact value. The only class that needs Avro.
 */
public final class AvroEvents {
    private static final int MOST_BYTES = 64, MOST_SCALE = 100;

    private AvroEvents() {}

    /** Return a record as an event for {@link Model#score(Map)}, whether its logical types were converted or not. */
    public static Map<String, Object> of(IndexedRecord record) {
        Map<String, Object> event = new LinkedHashMap<>();
        for (Schema.Field field : record.getSchema().getFields()) event.put(field.name(), value(field.schema(), record.get(field.pos())));
        return event;
    }

    private static Object value(Schema schema, Object value) {
        if (value instanceof CharSequence || value instanceof Enum<?> || value instanceof UUID || value instanceof GenericEnumSymbol<?>)
            return value.toString();
        if (value instanceof Float number) return number.doubleValue();
        if (value instanceof ByteBuffer bytes) return decimal(schema, bytes, value);
        if (value instanceof GenericFixed fixed) return decimal(schema, ByteBuffer.wrap(fixed.bytes()), value);
        if (value instanceof Instant time) return unit(schema).between(Instant.EPOCH, time);
        if (value instanceof LocalDateTime time) return unit(schema).between(Instant.EPOCH, time.toInstant(ZoneOffset.UTC));
        if (value instanceof LocalTime time) return unit(schema).between(LocalTime.MIDNIGHT, time);
        if (value instanceof LocalDate date) return date.toEpochDay();
        if (value instanceof Collection<?> items) return items.stream().map(item -> value(only(schema, Schema.Type.ARRAY).getElementType(), item)).toList();
        if (value instanceof Map<?, ?> map) {
            Map<String, Object> made = new LinkedHashMap<>();
            map.forEach((key, inner) -> made.put(key.toString(), value(only(schema, Schema.Type.MAP).getValueType(), inner)));
            return made;
        }
        if (!(value instanceof IndexedRecord record)) return value;
        Map<String, Object> event = of(record);
        boolean hasOwnScale = record.getSchema().getFullName().equals("io.debezium.data.VariableScaleDecimal");
        return hasOwnScale && event.get("scale") instanceof Integer scale && event.get("value") instanceof ByteBuffer bytes ? scaled(bytes, scale, event) : event;
    }

    private static Object decimal(Schema schema, ByteBuffer bytes, Object value) {
        return branches(schema).map(Schema::getLogicalType).filter(LogicalTypes.Decimal.class::isInstance).findFirst()
            .map(type -> scaled(bytes, ((LogicalTypes.Decimal) type).getScale(), value)).orElse(value);
    }

    private static Object scaled(ByteBuffer bytes, int scale, Object otherwise) {
        byte[] raw = new byte[bytes.remaining()];
        bytes.duplicate().get(raw);
        boolean isRead = raw.length > 0 && raw.length <= MOST_BYTES && Math.abs(scale) <= MOST_SCALE;
        return isRead ? new BigDecimal(new BigInteger(raw), scale) : otherwise;
    }

    /** Return the unit of a schema's logical type of time. */
    private static ChronoUnit unit(Schema schema) {
        String type = branches(schema).map(one -> one.getProp("logicalType")).filter(name -> name != null && name.contains("time")).findFirst().orElse("");
        return type.endsWith("-nanos") ? ChronoUnit.NANOS : type.endsWith("-micros") ? ChronoUnit.MICROS : ChronoUnit.MILLIS;
    }

    private static Schema only(Schema schema, Schema.Type type) {
        return branches(schema).filter(branch -> branch.getType() == type).findFirst().orElseThrow();
    }

    private static Stream<Schema> branches(Schema schema) {
        return schema.isUnion() ? schema.getTypes().stream() : Stream.of(schema);
    }
}
