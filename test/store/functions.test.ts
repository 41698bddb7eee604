import assert from 'node:assert/strict';
import { once } from 'node:events';
import { beforeEach, describe, test } from 'node:test';
import { capturedLog } from '../../harness/captured_log.ts';
import { PrivateRedis } from '../../harness/redis/private_redis.ts';
import { TestStore } from '../../harness/redis/store.ts';
import { Bus } from '../../harness/scripts/bus.ts';
import { assertConsistent } from '../../harness/scripts/invariants.ts';
import { StorageFull } from '../../src/errors.ts';
import { createLog } from '../../src/log.ts';
import { connectOne } from '../../src/store/connection.ts';
import { functionLibrary, functionName, scriptOfFunction } from '../../src/store/function_library.ts';
import { Functions } from '../../src/store/functions.ts';
import { DECLARED_KEY } from '../../src/store/keys.ts';
import { Partition } from '../../src/store/partition.ts';
import { readScripts, type ScriptSource } from '../../src/store/script_source.ts';

const redis = new TestStore();
const bus = new Bus(() => redis.store);
const commands = () => redis.store.redis;
const flushFunctions = () => commands().call('FUNCTION', 'FLUSH');

/** Resolves with the names of the function libraries in Redis. */
async function libraries(): Promise<string[]> {
  const listed = (await commands().call('FUNCTION', 'LIST')) as [string, string][];
  return listed.map(([, name]) => name).sort();
}

/** Resolves with how often Redis has called functions. */
async function functionCalls(): Promise<number> {
  return Number(/^cmdstat_fcall:calls=(\d+)/m.exec(await commands().info('commandstats'))?.[1] ?? 0);
}

/** Publishes events, and acquires, acks and nacks their batches. Resolves with the state of Redis after that. */
async function somethingOfEverything(on: Bus): Promise<unknown> {
  await on.subscribe('alice', { max: 2 });
  await on.publish('a', 'widgets', ['e1', 'e2', 'e3', 'e4', 'e5']);
  await on.acquire(['w1', 'w2']);
  await on.acquire(['w1'], { finished: [{ worker: 'w1', job: 'a1' }] });
  await on.nack('w2', 'a2', { delayMs: 60_000, damage: 2 });
  await assertConsistent(on.store);
  return on.state();
}

/** Returns a script that takes a list of texts. */
const script = (text: string): ScriptSource => ({
  ...{ name: 'odd', path: 'lua/delivering/odd.lua', text, flags: [] },
  contract: { arguments: { values: ['bytes'] }, reply: ['bytes'] },
  modules: readScripts()[0]?.modules.filter(({ name }) => name === 'store/calls') ?? [],
});

beforeEach(async () => {
  await redis.flush();
  await commands().config('SET', 'maxmemory', '0');
});

describe('the functions of Redis', () => {
  test('are called for every script, and do what the scripts do', async () => {
    await redis.store.prepare();
    await commands().config('RESETSTAT');
    const byFunctions = await somethingOfEverything(bus);
    assert.equal(await functionCalls(), 5);

    await redis.flush();
    await commands().call('ACL', 'SETUSER', 'no_functions', 'on', '>pw', '~*', '&*', '+@all', '-fcall');
    const limited = connectOne(redis.redis.url, createLog('silent', {}));
    if (limited.status !== 'ready') await once(limited, 'ready');
    await limited.auth('no_functions', 'pw');
    const { log, lines } = capturedLog();
    const scripts = new Partition(limited, { log });
    const byScripts = await somethingOfEverything(new Bus(() => scripts));
    limited.disconnect();
    assert.equal(await functionCalls(), 5);
    assert.deepEqual(byScripts, byFunctions);
    assert.equal(lines.length, 1, 'it is said once');
    assert.match(String(lines[0]?.msg), /grant its user \+fcall/);
    const calls = await commands().info('commandstats');
    assert.match(calls, /^cmdstat_fcall:.*rejected_calls=1,/m, 'and not asked for again and again');
  });

  test('are replaced by EVALSHA on a Redis that does not know them, with advice in the log', async (t) => {
    const old = await PrivateRedis.during(t, { config: { 'rename-command': 'FCALL ""' } });
    const { log, lines } = capturedLog();
    const connection = connectOne(old.url, log);
    t.after(() => connection.disconnect());
    await once(connection, 'ready');
    const events = new Bus(() => new Partition(connection, { log }));
    await events.subscribe('alice');
    await events.publish('a', 'widgets', ['e']);
    assert.equal((await events.state()).gauges.events.alice, 1);
    assert.match(String(lines[0]?.msg), /Redis 7\.0 or later has them/);
  });

  test('are loaded again when Redis has lost them', async () => {
    await flushFunctions();
    await bus.subscribe('alice');
    const many = ['a', 'b', 'c', 'd'].map((name) => bus.publish(name, 'widgets', ['e']));
    await Promise.all(many);
    assert.equal((await bus.state()).gauges.events.alice, 4);
    assert.equal((await libraries()).length, 1);
  });

  test('are replaced by EVALSHA while Redis has no room for them', async () => {
    await redis.store.prepare();
    await bus.subscribe('alice', { max: 1 });
    await bus.publish('a', 'widgets', ['e1']);
    await flushFunctions();
    await commands().config('SET', 'maxmemory', '1');
    const { log, lines } = capturedLog();
    const poor = new Partition(commands(), { log });
    const poorBus = new Bus(() => poor);
    assert.equal((await poorBus.acquire(['w1'], { idle: 0 })).grants.length, 1);
    await assert.rejects(poorBus.publish('b', 'widgets', ['e2']), StorageFull);
    assert.deepEqual(await libraries(), []);
    assert.deepEqual(lines, [], 'that passes');
  });

  test('of other releases are deleted at a start; libraries of other applications stay', async () => {
    const library = (name: string) =>
      `#!lua name=${name}\nredis.register_function('${name}_publish', function() end)`;
    await flushFunctions();
    for (const name of ['routemaster_0123', 'other'])
      await commands().call('FUNCTION', 'LOAD', library(name));
    await redis.store.prepare();
    const left = await libraries();
    assert.equal(left.length, 2);
    assert.equal(left[0], 'other');
    assert.notEqual(left[1], 'routemaster_0123');
  });
});

describe('a library', () => {
  test('has another name for other code, and its functions the names of their scripts', () => {
    const libraries = ['return 1', 'return 2'].map((text) => functionLibrary([script(`${text}\n`)]));
    assert.notEqual(libraries[0]?.name, libraries[1]?.name);
    assert.equal(scriptOfFunction(functionName(String(libraries[0]?.name), 'odd')), 'odd');
  });

  test('gets arguments unchanged: text, numbers, any bytes', async () => {
    const library = functionLibrary([script('return function(call, args) return args.values end\n')]);
    await flushFunctions();
    await commands().call('FUNCTION', 'LOAD', library.lua);
    const bytes = Buffer.from(Array.from({ length: 256 }, (_, i) => i));
    const values = ['', 'plain', 'na\u00efve \u20ac \u{1f600}', 42, -1.5, bytes];
    const args = [values.length, ...values];
    const functions = new Functions(library, `k\u00e9y:${DECLARED_KEY}`);
    const expected = [...values.slice(0, 5).map((each) => Buffer.from(String(each))), bytes];
    assert.deepEqual(await functions.call(commands(), 'odd', args, () => assert.fail()), expected);
  });
});
