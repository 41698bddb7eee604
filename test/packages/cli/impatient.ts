import { Bus } from '../../../packages/cli/src/bus.ts';
import { LinePublisher } from '../../../packages/cli/src/publishing_lines.ts';

// Publishes two lines to the bus of its argument, as `rtm pub --ndjson` does, but with a time limit of two seconds
// instead of two minutes for each request. Prints what is stored, or the code of the error and whether the lines may be
// stored.

const bus = new Bus({ url: process.argv[2] ?? '', token: 'shop', timeoutMs: 2000 });
const publisher = new LinePublisher(bus, new AbortController().signal, () => () => {});
const chunk = { lines: ['{"n":1}', '{"n":2}'], numbers: [1, 2], bytes: 16 };
await publisher
  .post('orders', chunk, ({ lines }) => process.stdout.write(lines.join()))
  .catch(({ code, mayBeDone }) => process.stdout.write(mayBeDone ? `${code}, perhaps stored` : code));
