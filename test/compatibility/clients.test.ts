import assert from 'node:assert/strict';
import { execFile, spawnSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { promisify } from 'node:util';
import type { Receiver } from '../../harness/http/receiver.ts';
import { ROOT_KEY } from '../../harness/processes/bus_environment.ts';
import { RunningBus } from '../../harness/processes/running_bus.ts';
import { until } from '../../harness/until.ts';
import type { Compatibility } from '../../src/routing/dialect.ts';
import { ElixirClient, GoClient, RubyGem } from './speakers.ts';

const noRuby = spawnSync('ruby', ['--version']).status !== 0 && 'ruby is not on PATH (apt-get install ruby)';
const refused = (status: number) => ({ message: new RegExp(`\\b${status}\\b`) });
const newToken = (name: string) => `${name}--${randomBytes(16).toString('hex')}`;

for (const mode of ['routemaster', 'none'] satisfies Compatibility[]) {
  describe(`compatibility mode ${mode}: the clients of Routemaster`, () => {
    const bus = RunningBus.forTests({ env: { ROUTEMASTER_COMPATIBILITY: mode } });
    const inMode = mode === 'routemaster';
    const root = () => new RubyGem(bus.url, ROOT_KEY);

    /** Registers a token that is the whole credential in either mode, as clients had it before the move. */
    const tokenOf = (name: string) => root().tokenAdd(name, newToken(name));

    /** Waits until deliveries with this user have brought these events. */
    const delivered = (receiver: Receiver, user: string, urls: string[]) =>
      until(() => {
        const authorization = `Basic ${btoa(`${user}:x`)}`;
        const its = receiver.deliveries.filter(({ headers }) => headers.authorization === authorization);
        return urls.every((url) => its.some(({ events }) => events.some((event) => event.url === url)));
      });

    test('rtm token add NAME prints a token that works by itself in the mode, and needs its secret otherwise', async () => {
      const token = await root().tokenAdd('order-service');
      assert.match(token, inMode ? /^order-service--[0-9a-f]{32}$/ : /^order-service--[a-z0-9]{20}$/);
      assert.equal((await root().tokenList()).get(token), 'order-service');
      const client = new RubyGem(bus.url, token);
      if (inMode) {
        await client.configure();
        await client.sendEvent('create', 'orders', 'https://shop.example.com/orders/1');
      } else await assert.rejects(client.configure(), /cannot connect to bus/);
      await root().tokenDel(token);
      assert.equal((await root().tokenList()).get(token), undefined);
    });

    test('the Ruby gem publishes, synchronously and by Sidekiq, subscribes, monitors and leaves', async (t) => {
      const receiver = await bus.receiver(t);
      const [publisher, subscriber] = [
        new RubyGem(bus.url, await tokenOf('ruby-shop')),
        new RubyGem(bus.url, await tokenOf('ruby-mails')),
      ];
      await Promise.all([publisher.configure(), subscriber.configure()]);
      const { callback } = receiver;
      await subscriber.subscribe({
        topics: ['ruby_orders', 'ruby_users'],
        callback,
        uuid: 'drain',
        timeout: 0,
        max: 2,
      });
      const url = (n: number) => `https://shop.example.com/ruby/${n}`;
      await publisher.sendEvent('create', 'ruby_orders', url(1));
      await publisher.sendEvent('update', 'ruby_orders', url(2), { t: 1_473_080_555_409 });
      await publisher.sendEvent('delete', 'ruby_orders', url(3), { data: { color: 'teal' } });
      await publisher.sendEvent('noop', 'ruby_orders', url(4));
      await delivered(receiver, 'drain', [1, 2, 3, 4].map(url));
      const topics = await publisher.monitorTopics();
      assert.ok(topics.some(({ name, events }) => name === 'ruby_orders' && events === 4));
      const [own] = await subscriber.monitorSubscriptions();
      assert.ok(own);
      const all = await root().monitorSubscriptions();
      assert.ok(all.length > 0 && all.every(({ uuid }) => uuid === null));
      await subscriber.unsubscribe('ruby_users');
      await subscriber.unsubscribeAll();
      await publisher.deleteTopic('ruby_orders');
    });

    test('the Ruby gem shows a subscriber its uuid, and of others what Routemaster showed, in the mode alone', async (t) => {
      const { callback } = await bus.receiver(t);
      const tokens = await Promise.all([tokenOf('mine'), tokenOf('theirs')]);
      const [mine, theirs] = tokens.map((token) => new RubyGem(bus.url, token)) as [RubyGem, RubyGem];
      await mine.subscribe({ topics: ['seen'], callback, uuid: 'mine' });
      await theirs.subscribe({ topics: ['seen'], callback, uuid: 'theirs' });
      const shown = await mine.monitorSubscriptions();
      assert.equal(shown.find(({ subscriber }) => subscriber === tokens[0])?.uuid, 'mine');
      assert.equal(shown.length, inMode ? 2 : 1);
      assert.ok(shown.every(({ subscriber, uuid }) => subscriber !== tokens[1] && uuid !== 'theirs'));
      await Promise.all([mine.unsubscribeAll(), theirs.unsubscribeAll()]);
    });

    test('rtm sub add https://user@host: the token that rtm sends is the uuid, else the user', async (t) => {
      const receiver = await bus.receiver(t);
      const publisher = new RubyGem(bus.url, await tokenOf('cat-shop'));
      const token = await tokenOf('cat-fan');
      const rtm = new RubyGem(bus.url, token);
      const callback = receiver.callback.replace('//', '//bus-user@');
      const topics = ['cats'];
      await rtm.subscribe({ callback, topics, timeout: 0, max: 1, uuid: token });
      await publisher.sendEvent('noop', 'cats', 'https://cats.example.com/1');
      await delivered(receiver, token, ['https://cats.example.com/1']);
      await rtm.subscribe({ callback, topics, timeout: 0, max: 1 }); // as rtm before 3.1.2
      await publisher.sendEvent('noop', 'cats', 'https://cats.example.com/2');
      await delivered(receiver, 'bus-user', ['https://cats.example.com/2']);
      await rtm.unsubscribeAll();
    });

    test('the Go client makes a token, publishes, subscribes, lists and leaves', async (t) => {
      const receiver = await bus.receiver(t);
      const admin = new GoClient(bus.url, ROOT_KEY);
      const made = await admin.createToken('go-shop');
      assert.ok((await admin.getTokens()).some(({ name, token }) => name === 'go-shop' && token === made));
      const go = new GoClient(bus.url, inMode ? made : await tokenOf('go-shop'));
      if (!inMode) await assert.rejects(new GoClient(bus.url, made).getTopics(), refused(401));
      await go.subscribe({ topics: ['go_orders'], callback: receiver.callback, uuid: 'go-drain', max: 1 });
      await go.push('go_orders', { type: 'create', url: 'https://shop.example.com/go/1' });
      await go.push('go_orders', {
        type: 'update',
        url: 'https://shop.example.com/go/2',
        timestamp: 5,
        data: [1],
      });
      await delivered(receiver, 'go-drain', [
        'https://shop.example.com/go/1',
        'https://shop.example.com/go/2',
      ]);
      const topics = await go.getTopics();
      assert.ok(topics.some(({ name, events }) => name === 'go_orders' && events === 2));
      await go.unsubscribe('go_orders');
      await go.unsubscribeAll();
      await go.deleteTopic('go_orders');
      await admin.deleteToken(made);
    });

    test('the Elixir client takes what it gets: 200 for a publish, in the mode alone', async (t) => {
      const receiver = await bus.receiver(t);
      const elixir = new ElixirClient(bus.url, await tokenOf('elixir_shop'));
      const { callback } = receiver;
      assert.equal(await elixir.subscribe({ topics: ['ex_orders'], callback, uuid: 'ex-drain' }), 'ok');
      const url = 'https://shop.example.com/ex/1';
      assert.deepEqual(await elixir.sendEvent('create', 'ex_orders', url), inMode ? 'ok' : { error: 204 });
      await delivered(receiver, 'ex-drain', [url]);
      assert.ok(Array.isArray(await elixir.allTopics()));
      assert.ok(Array.isArray(await elixir.allSubscribers()));
      assert.deepEqual(await elixir.unsubscribe('nothing'), { error: 404 });
      assert.equal(await elixir.unsubscribe('ex_orders'), 'ok');
      assert.equal(await elixir.unsubscribeAll(), 'ok');
      assert.equal(await elixir.deleteTopic('ex_orders'), 'ok');
    });

    test('what only Routemaster took is taken in the mode alone: long URLs, times as text, a large max', async (t) => {
      const { callback } = await bus.receiver(t);
      const client = new GoClient(bus.url, await tokenOf('odd'));
      const event = { type: 'noop', url: 'https://a.example.com/1' };
      const calls = [
        () => client.push('odd', { ...event, url: `https://a.example.com/${'a'.repeat(3000)}` }),
        () => client.push('odd', { ...event, timestamp: '1473080555409' }),
        () => client.push('odd', { ...event, timestamp: false }),
        () => client.push('odd', { ...event, foo: 'bar' }),
        () => client.subscribe({ topics: ['odd'], callback, max: 100_000 }),
      ];
      for (const call of calls) await (inMode ? call() : assert.rejects(call(), refused(400)));
    });

    test('net/http of Ruby, called as the gem calls it', { skip: noRuby }, async (t) => {
      const receiver = await bus.receiver(t);
      const script = join(import.meta.dirname, 'gem.rb');
      const tokens = inMode ? [] : [newToken('net-shop'), newToken('net-mails')];
      const args = [script, bus.url, ROOT_KEY, receiver.callback, ...tokens];
      const { stdout } = await promisify(execFile)('ruby', args, { timeout: 60_000 });
      assert.match(stdout, /^done/m);
      await delivered(
        receiver,
        'net-drain',
        [1, 2, 3].map((n) => `https://shop.example.com/net/${n}`),
      );
    });
  });
}
