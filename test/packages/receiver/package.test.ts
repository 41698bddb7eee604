import { packageTests } from '../package_tests.ts';

/** A program that handles a signed delivery, and refuses one without a signature. A warning would appear on stderr. */
const SIGNED_DELIVERY = {
  shows: 'CommonJS gets the package by require',
  file: 'signed_delivery.cjs',
  text: `
const assert = require('node:assert/strict');
const { createHmac } = require('node:crypto');
const { createReceiver, MemoryStore } = require('@routemaster/receiver');

const key = Buffer.from('a key of the tests of it');
const seen = [];
const receiver = createReceiver({
  signingSecret: 'whsec_' + key.toString('base64'),
  store: new MemoryStore(),
  on: { orders: (events) => void seen.push(...events) },
  onRefused: () => {},
});

async function deliver(text, signed = text) {
  const seconds = Math.floor(Date.now() / 1000);
  const signature = createHmac('sha256', key).update('1.' + seconds + '.' + signed).digest('base64');
  const headers = { 'webhook-id': '1', 'webhook-timestamp': String(seconds), 'webhook-signature': 'v1,' + signature };
  const request = new Request('https://search.example.com/events', { method: 'POST', headers, body: text });
  return (await receiver.fetch(request)).status;
}

(async () => {
  const text = JSON.stringify([{ topic: 'orders', type: 'noop', url: 'https://shop.example.com/orders/1', t: 1 }]);
  assert.equal(await deliver(text, '[]'), 401);
  assert.equal(await deliver(text), 204);
  assert.equal(await deliver(text), 204);
  assert.equal(seen.length, 1);
})();
`,
};

packageTests({
  name: 'receiver',
  also: SIGNED_DELIVERY,
  async begin() {
    process.env.SIGNING_SECRET = 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw';
    // The program gets a free port, and ends when it has nothing else to do.
    return (text) => text.replace(".listen(9292, '127.0.0.1')", ".listen(0, '127.0.0.1').unref()");
  },
});
