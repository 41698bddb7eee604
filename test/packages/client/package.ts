import { Receiver } from '../../../harness/http/receiver.ts';
import { ROOT_KEY } from '../../../harness/processes/bus_environment.ts';
import { bus } from '../default_bus.ts';
import { packageTests } from '../package_tests.ts';

/** A program whose publishes share a signal. Node 20 would warn on stderr if each added a listener to it. */
const SHARED_SIGNAL = {
  shows: 'thousands of calls may share a signal',
  file: 'shared_signal.mjs',
  text: `
import { Routemaster } from '@routemaster/client';

const bus = new Routemaster({
  url: 'https://bus.example.com',
  token: 'shop--psbsfvxhjewnxiczhqc0',
  secret: 'JstIQF8oA-2oVgFXIZlV9O4kqU25YRCH',
  digest: true,
});
const { signal } = new AbortController();
const publishes = Array.from({ length: 3000 }, (_, n) =>
  bus.updated('orders', 'https://shop.example.com/orders/' + n, { signal }),
);
await Promise.all(publishes);
await bus.close();
`,
};

let receiver: Receiver | undefined;

packageTests({
  name: 'client',
  also: SHARED_SIGNAL,
  async begin() {
    await bus.works;
    receiver = await Receiver.start();
    const { callback } = receiver;
    const { token, secret } = await bus.client('shop');
    return (text) =>
      text
        .replaceAll('https://bus.example.com', bus.url)
        .replaceAll('shop--psbsfvxhjewnxiczhqc0', token)
        .replaceAll('JstIQF8oA-2oVgFXIZlV9O4kqU25YRCH', secret)
        .replaceAll('the root key', ROOT_KEY)
        .replaceAll('https://search.example.com/events', callback);
  },
  async end() {
    await receiver?.stop();
  },
});
