export const TOPIC = 'widgets';
/** The user name of deliveries. */
export const UUID = 'bench';
const URL = 'https://billing.example.com/invoices/1842201';
const TIMESTAMP = 1767225600000;

/** The event that is published: a small one, as most are. */
export const EVENT = `{"type":"update","url":"${URL}","timestamp":${TIMESTAMP}}`;

/** EVENT with the time at which it was sent, which `stampedAt` sets. */
export const STAMPED = EVENT.replace('}', ',"data":{"sentAtUs":0}}');
/** A delivery of the stamped event, as subscribers get it. */
export const DELIVERED = `[{"id":"V1StGXR8_Z5jdHi6","topic":"${TOPIC}","type":"update","url":"${URL}","t":${TIMESTAMP},"data":{"sentAtUs":0}}]`;

export const FORMATS = ['array', 'NDJSON'] as const;
export type Format = (typeof FORMATS)[number];

/** Returns the body of a request with this many events, and its content type. */
export function bulk(format: Format, events: number): { body: string; contentType: string } {
  const all = Array.from({ length: events }, () => EVENT);
  return format === 'array'
    ? { body: `[${all.join(',')}]`, contentType: 'application/json' }
    : { body: all.join('\n'), contentType: 'application/x-ndjson' };
}

/** Returns a number with its unit, such as `10,000 subscribers`. */
export function counted(count: number, of: string): string {
  return `${count.toLocaleString('en')} ${of}${count === 1 ? '' : 's'}`;
}

/** Figures that the authors of the Ruby Routemaster published, on a machine of two cores. */
export const RUBY = 'Ruby Routemaster, published';
