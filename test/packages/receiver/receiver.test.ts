import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect } from 'node:net';
import { describe, test } from 'node:test';
import { Webhook } from 'standardwebhooks';
import {
  createReceiver,
  type DropNotice,
  type Handler,
  MemoryStore,
  type ReceivedEvent,
  type ReceiverOptions,
} from '../../../packages/receiver/src/index.ts';
import { basic, event, listen, post, SECRET } from './posting.ts';

describe('a receiver', () => {
  test('gives each topic its events in their order, and the rest to *', async (t) => {
    const calls: unknown[] = [];
    const receiver = createReceiver({
      uuid: 'me',
      on: {
        orders: (events, { id, attempt }) => void calls.push([id, attempt, events.map((each) => each.id)]),
        '*': (events) => void calls.push(events.map(({ topic }) => topic)),
      },
    });
    const url = await listen(t, receiver.node());
    const response = await post(url, [event('orders', 1), event('users', 2), event('orders', 3)]);
    assert.equal(response.status, 204);
    assert.deepEqual(calls, [['batch-1', 2, ['e1', 'e3']], ['users']]);
  });

  test('gives * the events of a topic whose handler is undefined', async (t) => {
    const calls: string[] = [];
    const rest = (events: ReceivedEvent[]) => void calls.push(...events.map(({ id }) => id));
    // The types allow this only without exactOptionalPropertyTypes.
    const on = { orders: undefined, '*': rest } as unknown as ReceiverOptions['on'];
    const receiver = createReceiver({ uuid: 'me', on });
    const url = await listen(t, receiver.node());
    assert.equal((await post(url, [event('orders', 1), event('users', 2)])).status, 204);
    assert.deepEqual(calls, ['e1', 'e2']);
  });

  test('reads a body by another parser, which may keep long numbers', async (t) => {
    const calls: unknown[] = [];
    const parse = (text: string) =>
      JSON.parse(text, (_key, value, context?: { source: string }) =>
        value > 2 ** 53 ? BigInt(context?.source ?? '') : value,
      );
    const on = { orders: ([first]: ReceivedEvent[]) => void calls.push(first?.data) };
    const failures: unknown[] = [];
    const onError = (error: unknown) => failures.push(error);
    const url = await listen(t, createReceiver({ uuid: 'me', parse, on, onError }).node());
    const text = JSON.stringify([{ ...event('orders', 1), data: 0 }]);
    assert.equal((await post(url, text.replace('"data":0', '"data":12345678901234567890'))).status, 204);
    assert.deepEqual(calls, [12345678901234567890n]);
    assert.equal((await post(url, '[')).status, 400);
    assert.ok(failures[0] instanceof SyntaxError);
  });

  test('refuses a wrong uuid before it reads the body, and takes any of several', async (t) => {
    const receiver = createReceiver({ uuid: ['me', 'soon'], on: {} });
    const url = await listen(t, receiver.node());
    for (const [uuid, status] of [
      ['me', 204],
      ['soon', 204],
      ['other', 401],
      ['', 401],
    ] as const) {
      assert.equal((await post(url, [event('orders', 1)], { authorization: basic(uuid) })).status, status);
    }
    const socket = connect(Number(new URL(url).port), '127.0.0.1');
    socket.write('POST /events HTTP/1.1\r\nHost: me\r\nContent-Length: 1000000\r\n\r\n');
    const [answer] = await once(socket, 'data');
    assert.match(String(answer), /^HTTP\/1.1 401 /);
    socket.destroy();
  });

  test('refuses what is not signed by its secret', async (t) => {
    const receiver = createReceiver({ signingSecret: SECRET, on: {} });
    const url = await listen(t, receiver.node());
    const body = JSON.stringify([event('orders', 1)]);
    const now = new Date();
    const signed = {
      'webhook-timestamp': String(Math.floor(now.getTime() / 1000)),
      'webhook-signature': new Webhook(SECRET).sign('batch-1', now, body),
    };
    assert.equal((await post(url, body, signed)).status, 204);
    assert.equal((await post(url, `${body} `, signed)).status, 401);
    assert.equal((await post(url, body)).status, 401);
  });

  test('says once a minute for each reason why it refuses deliveries, or tells a hook each time', async (t) => {
    const warn = t.mock.method(console, 'warn', () => {});
    t.mock.timers.enable({ apis: ['Date'], now: Date.now() });
    const url = await listen(t, createReceiver({ uuid: 'me', signingSecret: SECRET, on: {} }).node());
    const refused = async (headers = {}) =>
      assert.equal((await post(url, [event('orders', 1)], headers)).status, 401);
    const said = () => warn.mock.calls.map(({ arguments: [text] }) => text);
    for (let n = 0; n < 3; n++) await refused();
    const unsigned =
      'the delivery is not signed (a header webhook-… is missing): subscribe with a signing_secret';
    const line = (reason: string) => `refused a delivery (said once a minute at most): ${reason}`;
    assert.deepEqual(said(), [line(unsigned)]);
    const wrong = { authorization: basic('other') };
    const unknown = 'the uuid of the delivery is wrong or missing';
    for (let n = 0; n < 3; n++) await refused(wrong);
    assert.deepEqual(said(), [line(unsigned), line(unknown)]);
    t.mock.timers.tick(60_000);
    await refused();
    assert.deepEqual(said(), [line(unsigned), line(unknown), line(unsigned)]);

    const reasons: string[] = [];
    const onRefused = (reason: string) => {
      reasons.push(reason);
      throw new Error('the alarm is away');
    };
    const log = t.mock.method(console, 'error', () => {});
    const hooked = await listen(
      t,
      createReceiver({ uuid: 'me', signingSecret: SECRET, onRefused, on: {} }).node(),
    );
    for (const headers of [wrong, {}])
      assert.equal((await post(hooked, [event('orders', 1)], headers)).status, 401);
    assert.deepEqual(reasons, [unknown, unsigned]);
    assert.equal(log.mock.callCount(), 2);
  });

  test('answers 500 if a handler throws or says that events failed, and handles the delivery again', async (t) => {
    const errors: unknown[] = [];
    let calls = 0;
    const receiver = createReceiver({
      uuid: 'me',
      store: new MemoryStore(),
      onError: (error) => void errors.push(String(error)),
      on: {
        orders: () => {
          calls++;
          if (calls === 1) throw new Error('the secret is hunter2');
          return calls === 2 ? { failed: ['e1'] } : undefined;
        },
      },
    });
    const url = await listen(t, receiver.node());
    const first = await post(url, [event('orders', 1)]);
    assert.deepEqual(
      [first.status, await first.text()],
      [500, 'a handler failed; the log of the receiver says more\n'],
    );
    assert.equal((await post(url, [event('orders', 1)])).status, 500);
    assert.equal((await post(url, [event('orders', 1)])).status, 204);
    assert.equal((await post(url, [event('orders', 1)])).status, 204);
    assert.equal(calls, 3);
    assert.deepEqual(errors, [
      'Error: the secret is hunter2',
      'EventsFailed: the handler of orders could not handle 1 events, such as e1',
    ]);
  });

  test('takes whatever else a handler returns for success', async (t) => {
    const given = [[undefined], 'done', 3, true, null, {}];
    const errors: unknown[] = [];
    const orders = (() => given.shift()) as Handler;
    const receiver = createReceiver({
      uuid: 'me',
      onError: (error) => void errors.push(error),
      on: { orders },
    });
    const url = await listen(t, receiver.node());
    while (given.length > 0)
      assert.equal((await post(url, [event('orders', 1)])).status, 204, String(errors[0]));
  });

  test('answers 503 while another handles the delivery, and when the store fails', async (t) => {
    let finish = () => {};
    const held = new Promise<void>((resolve) => {
      finish = resolve;
    });
    const receiver = createReceiver({ uuid: 'me', store: new MemoryStore(), on: { orders: () => held } });
    const url = await listen(t, receiver.node());
    const first = post(url, [event('orders', 1)]);
    const second = await post(url, [event('orders', 1)]);
    assert.deepEqual([second.status, second.headers.get('retry-after')], [503, '5']);
    finish();
    assert.equal((await first).status, 204);
    const away = () => Promise.reject(new Error('away'));
    const failing = () => {
      throw new Error('away');
    };
    const works = { claim: async () => 'claimed' as const, confirm: async () => {}, release: async () => {} };
    const errors: string[] = [];
    for (const broken of [{ claim: away }, { confirm: away }, { confirm: failing, release: failing }]) {
      const receiver = createReceiver({
        uuid: 'me',
        store: { ...works, ...broken },
        onError: (error) => void errors.push(String(error)),
        on: {},
      });
      const response = await post(await listen(t, receiver.node()), [event('orders', 1)]);
      assert.deepEqual(
        [response.status, response.headers.get('retry-after'), await response.text()],
        [503, '5', 'the store of deliveries failed\n'],
      );
    }
    assert.deepEqual(errors, Array(4).fill('Error: away'));
  });

  test('logs what an onError throws, at once or later', async (t) => {
    const log = t.mock.method(console, 'error', () => {});
    for (const onError of [
      () => {
        throw new Error('the alarm is away');
      },
      () => Promise.reject(new Error('the alarm is away')),
    ]) {
      const on = { orders: () => Promise.reject(new Error('no')) };
      const receiver = createReceiver({ uuid: 'me', onError, on });
      assert.equal((await post(await listen(t, receiver.node()), [event('orders', 1)])).status, 500);
    }
    const failures = log.mock.calls.map(({ arguments: [, error] }) => error.message);
    assert.deepEqual(failures, ['the alarm is away', 'the alarm is away']);
  });

  test('tells of drop notices and busts caches before the handlers', async (t) => {
    const told: unknown[] = [];
    const receiver = createReceiver({
      uuid: 'me',
      onDropped: (notice: DropNotice) => void told.push(notice),
      bustCache: (urls) => void told.push(urls),
      on: { orders: () => void told.push('handled') },
    });
    const gap =
      'batches=2, events=15, from=1795171446400, to=1795171447900, topics=("orders";events=9 "users";events=6), more=3';
    const url = await listen(t, receiver.node());
    await post(url, [event('orders', 1), event('orders', 1)], { 'routemaster-gap': gap });
    assert.deepEqual(told, [
      {
        ...{ batches: 2, events: 15, from: 1795171446400, to: 1795171447900, more: 3 },
        topics: { orders: 9, users: 6 },
      },
      ['https://shop.example.com/orders/1'],
      'handled',
    ]);
  });

  test('tells of a drop notice that came with a repeat of a handled delivery, and only of the notice', async (t) => {
    const told: unknown[] = [];
    const receiver = createReceiver({
      uuid: 'me',
      store: new MemoryStore(),
      onError: () => {},
      onDropped: ({ events }) => {
        told.push(events);
        if (told.length === 1) throw new Error('the publisher cannot be asked');
      },
      bustCache: (urls) => void told.push(urls),
      on: { orders: () => void told.push('handled') },
    });
    const url = await listen(t, receiver.node());
    const attempt = async (headers = {}) => (await post(url, [event('orders', 1)], headers)).status;
    assert.equal(await attempt(), 204);
    told.length = 0;
    const gap = { 'routemaster-gap': 'batches=1, events=15, from=1, to=2, topics=("orders";events=15)' };
    assert.equal(await attempt(gap), 500);
    assert.equal(await attempt(gap), 204);
    assert.deepEqual(told, [15, 15]);
  });

  test('cannot be made without a password or a secret', () => {
    assert.throws(() => createReceiver({ on: {} }), /otherwise anybody can send events/);
  });

  test('cannot be made with a misspelt option, which no type catches in JavaScript', () => {
    const unsigned = { uuid: 'me', signingSecert: SECRET, on: {} };
    assert.throws(
      () => createReceiver(unsigned),
      /^TypeError: there is no option signingSecert; the options are uuid, signingSecret, on, .*, maxBytes$/,
    );
    // A name that every object has is no option either.
    const inherited = { uuid: 'me', toString: () => 'me', on: {} };
    assert.throws(() => createReceiver(inherited), /^TypeError: there is no option toString; /);
  });

  test('cannot be made with an option that has no value, as from an environment that lacks it', () => {
    const [uuid, signingSecret] = ['me', SECRET];
    for (const nothing of [undefined, '', [], ['me', ''], [SECRET, undefined]] as string[]) {
      const options = { signingSecret: nothing, uuid, on: {} };
      assert.throws(() => createReceiver(options), /^TypeError: signingSecret has no value.* leave it out/);
      assert.throws(
        () => createReceiver({ uuid: nothing, signingSecret, on: {} }),
        /^TypeError: uuid has no/,
      );
    }
  });

  test('cannot be made with a signing secret that is none, or with handlers that are no functions', () => {
    for (const signingSecret of [
      'my-password',
      'hunter2',
      'whsec_',
      'whsec_MfKQ9r8GKYqrTwjUPD8ILP-IZo2LaLaSw',
    ])
      assert.throws(
        () => createReceiver({ signingSecret, on: {} }),
        /^TypeError: a signing secret is whsec_ and/,
      );
    for (const on of [undefined, null, () => {}] as unknown as ReceiverOptions['on'][])
      assert.throws(
        () => createReceiver({ uuid: 'me', on }),
        /^TypeError: on must be an object with a function/,
      );
    const on = { orders: 'handleOrders' } as unknown as ReceiverOptions['on'];
    assert.throws(
      () => createReceiver({ uuid: 'me', on }),
      /^TypeError: the handler of orders must be a function$/,
    );
  });

  test('cannot be made with an option of a wrong type, as one that is read from the environment', () => {
    const wrong: [object, RegExp][] = [
      [{ maxBytes: Number(undefined) }, /^RangeError: maxBytes must be a number above 0, not NaN$/],
      [{ maxBytes: '10kb' }, /^RangeError: maxBytes must be a number above 0, not 10kb$/],
      [{ toleranceSeconds: '300' }, /^RangeError: toleranceSeconds must be a number above 0, not 300$/],
      [{ store: MemoryStore }, /^TypeError: store must be an object with claim, .* such as new MemoryStore/],
      [{ store: false }, /^TypeError: store must be an object/],
      [{ onError: 'print' }, /^TypeError: onError must be a function$/],
      [{ uuid: 17 }, /^TypeError: uuid must be a text, or a list of texts$/],
    ];
    for (const [options, error] of wrong)
      assert.throws(() => createReceiver({ uuid: 'me', on: {}, ...options }), error);
    for (const nothing of [undefined, null, 'me'] as unknown as ReceiverOptions[])
      assert.throws(
        () => createReceiver(nothing),
        /^TypeError: give the options as an object, such as { uuid, on }$/,
      );
    const absent = { store: undefined, maxBytes: null } as object;
    createReceiver({ uuid: 'me', on: {}, ...absent });
  });

  test('gives events to the methods of an object of a class', async (t) => {
    class Handlers {
      readonly seen: string[] = [];
      orders(events: ReceivedEvent[]) {
        this.seen.push(...events.map(({ id }) => id));
      }
      '*'(events: ReceivedEvent[]) {
        this.seen.push(`other ${events.map(({ id }) => id)}`);
      }
    }
    const on = new Handlers();
    const receiver = createReceiver<{ orders: unknown }>({ uuid: 'me', on });
    const url = await listen(t, receiver.node());
    const events = [event('orders', 1), event('users', 2), event('constructor', 3)];
    assert.equal((await post(url, events)).status, 204);
    assert.deepEqual(on.seen, ['e1', 'other e2,e3']);
  });

  test('says once for each topic that it has no handler, as it may be misspelt', async (t) => {
    const warn = t.mock.method(console, 'warn', () => {});
    const said = () => warn.mock.calls.map(({ arguments: [text] }) => String(text));
    const deliver = async (on: ReceiverOptions['on']) => {
      const url = await listen(t, createReceiver({ uuid: 'me', on }).node());
      const events = [event('orders', 1), event('users', 2), event('users', 3), event('routemaster_test', 4)];
      for (let n = 0; n < 2; n++) assert.equal((await post(url, events)).status, 204);
    };
    await deliver({ order: () => assert.fail('there is no such topic') });
    assert.deepEqual(
      said(),
      ['orders', 'users'].map(
        (topic) =>
          `ignored events of the topic ${topic} (said once): it has no handler in \`on\`; a handler '*' gets such events`,
      ),
    );
    warn.mock.resetCalls();
    for (const on of [{}, { '*': () => {} }]) await deliver(on);
    assert.deepEqual(said(), []);
  });

  test('a topic that is called as a member of every object has no handler', async (t) => {
    const receiver = createReceiver({ uuid: 'me', on: {} });
    const url = await listen(t, receiver.node());
    assert.equal((await post(url, [event('constructor', 1), event('__proto__', 2)])).status, 204);
  });
});
