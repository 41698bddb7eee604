interface DemoEvent {
  topic: 'demo_orders' | 'demo_customers';
  type: 'create' | 'update' | 'delete' | 'noop';
  url: string;
  data?: unknown;
}

const types = ['create', 'update', 'update', 'noop', 'delete'] as const;

/** Number of customers in the sample events. */
const CUSTOMERS = 8;
/** Number of events in a row that are about the same customer. */
const EVENTS_IN_A_ROW = 6;

/** Returns the nth event of the sample publisher: a mix of topics and types, some with data. */
export function demoEvent(n: number): DemoEvent {
  const topic = n % 3 === 2 ? 'demo_customers' : 'demo_orders';
  const type = types[n % types.length] ?? 'noop';
  const url = `https://shop.example.com/${topic}/${1 + (n % 40)}`;
  if (type === 'delete' || n % 2 === 1) return { topic, type, url };
  const customer = 1 + (Math.floor(n / EVENTS_IN_A_ROW) % CUSTOMERS);
  const about = topic === 'demo_orders' ? { total: 10 + (n % 90), currency: 'EUR' } : { vip: n % 4 === 0 };
  return { topic, type, url, data: { customer, ...about } };
}

/** Returns the first events of the sample publisher that are of this topic. */
export function demoEvents(topic: DemoEvent['topic'], count: number): DemoEvent[] {
  const events: DemoEvent[] = [];
  for (let n = 0; events.length < count; n++) if (demoEvent(n).topic === topic) events.push(demoEvent(n));
  return events;
}
