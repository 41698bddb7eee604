import assert from 'node:assert/strict';
import { once } from 'node:events';
import { beforeEach, describe, test } from 'node:test';
import { Bus } from '../../harness/bus.ts';
import { capturedLog } from '../../harness/captured_log.ts';
import { assertConsistent } from '../../harness/invariants.ts';
import { TestStore } from '../../harness/store.ts';
import { StorageFull } from '../../src/errors.ts';
import { createLog } from '../../src/log.ts';
import { connect } from '../../src/store/connection.ts';
import { FunctionCall } from '../../src/store/function_call.ts';
import { functionLibrary, scriptOfFunction } from '../../src/store/function_library.ts';
import { Packed } from '../../src/store/packed.ts';
import type { ScriptSource } from '../../src/store/script_source.ts';
import { Store } from '../../src/store/store.ts';

const redis = new TestStore();
const bus = new Bus(() => redis.store);
const commands = () => redis.store.redis;
const flushFunctions = () => commands().call('FUNCTION', 'FLUSH');

/** The libraries that Redis has. */
async function libraries(): Promise<string[]> {
  const listed = (await commands().call('FUNCTION', 'LIST')) as [string, string][];
  return listed.map(([, name]) => name).sort();
}

/** How often Redis has called a function. */
async function functionCalls(): Promise<number> {
  return Number(/^cmdstat_fcall:calls=(\d+)/m.exec(await commands().info('commandstats'))?.[1] ?? 0);
}

/** Publishes, hands out, finishes, and fails; answers what Redis then holds. */
async function somethingOfEverything(on: Bus): Promise<unknown> {
  await on.subscribe('alice', { max: 2 });
  await on.publish('a', 'widgets', ['e1', 'e2', 'e3', 'e4', 'e5']);
  await on.acquire(['w1', 'w2']);
  await on.acquire(['w1'], { finished: [{ worker: 'w1', job: 'a1' }] });
  await on.nack('w2', 'a2', { delayMs: 60_000, damage: 2 });
  await assertConsistent(on.store);
  return on.state();
}

const script = (body: string): ScriptSource => ({
  name: 'odd',
  path: 'lua/delivering/odd.lua',
  lua: `#!lua\n${body}`,
  body,
  flags: [],
  keys: [],
  touches: [],
});

beforeEach(async () => {
  await redis.flush();
  await commands().config('SET', 'maxmemory', '0');
});

describe('the functions of Redis', () => {
  test('are called for what is published and delivered, and do what the scripts do', async () => {
    await redis.store.prepare();
    await commands().config('RESETSTAT');
    const byFunctions = await somethingOfEverything(bus);
    assert.equal(await functionCalls(), 3);

    await redis.flush();
    await commands().call('ACL', 'SETUSER', 'no_functions', 'on', '>pw', '~*', '&*', '+@all', '-fcall');
    const limited = connect(redis.redis.url, createLog('silent', {}));
    if (limited.status !== 'ready') await once(limited, 'ready');
    await limited.auth('no_functions', 'pw');
    const { log, lines } = capturedLog();
    const scripts = new Store(limited, { log });
    const byScripts = await somethingOfEverything(new Bus(() => scripts));
    limited.disconnect();
    assert.equal(await functionCalls(), 3);
    assert.deepEqual(byScripts, byFunctions);
    assert.equal(lines.length, 1, 'it is said once');
    assert.match(String(lines[0]?.msg), /grant its user \+fcall/);
    const calls = await commands().info('commandstats');
    assert.match(calls, /^cmdstat_fcall:.*rejected_calls=1,/m, 'and not asked for again and again');
  });

  test('are loaded when Redis has them no more', async () => {
    await flushFunctions();
    await bus.subscribe('alice');
    const many = ['a', 'b', 'c', 'd'].map((name) => bus.publish(name, 'widgets', ['e']));
    await Promise.all(many);
    assert.equal((await bus.state()).gauges.events.alice, 4);
    assert.equal((await libraries()).length, 1);
  });

  test('are done without while Redis has no room for them', async () => {
    await redis.store.prepare();
    await bus.subscribe('alice', { max: 1 });
    await bus.publish('a', 'widgets', ['e1']);
    await flushFunctions();
    await commands().config('SET', 'maxmemory', '1');
    const { log, lines } = capturedLog();
    const poor = new Store(commands(), { log });
    const poorBus = new Bus(() => poor);
    assert.equal((await poorBus.acquire(['w1'])).grants.length, 1);
    await assert.rejects(poorBus.publish('b', 'widgets', ['e2']), StorageFull);
    assert.deepEqual(await libraries(), []);
    assert.deepEqual(lines, [], 'that passes');
  });

  test('of other releases go when one starts, and nobody else’s', async () => {
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
  test('is made of scripts that return at their end only: what runs at a call does so in several steps', () => {
    const early = script('if #ARGV == 0 then\n  return 1\nend\nreturn 2');
    assert.throws(() => functionLibrary([early]), /before its end/);
  });

  test('has each variable once, or one function would see what another one means', () => {
    const twice = script('local a = 1\nlocal function f()\n  return a\nend\nlocal a = 2\nreturn f() + a');
    assert.throws(() => functionLibrary([twice]), /a name twice/);
  });

  test('has another name for other code, and its functions the names of their scripts', () => {
    const [one, other] = [functionLibrary([script('return 1')]), functionLibrary([script('return 2')])];
    assert.notEqual(one.name, other.name);
    assert.equal(scriptOfFunction(one.functions.get('odd') ?? ''), 'odd');
  });

  test('keeps nothing of one call for the next', async () => {
    const body = [
      'local count, unset, list = 0, nil, {}',
      'local seen',
      'local function add(n)',
      '  count = count + n',
      '  list[#list + 1] = n',
      '  seen = (seen or 0) + #list',
      'end',
      'for _, n in ipairs(ARGV) do',
      '  add(tonumber(n))',
      'end',
      'return { count, seen, #list }',
    ].join('\n');
    const library = functionLibrary([script(body)]);
    await flushFunctions();
    await commands().call('FUNCTION', 'LOAD', library.lua);
    const call = (...args: string[]) =>
      commands().call('FCALL', library.functions.get('odd') ?? '', 0, ...args);
    assert.deepEqual(await call('1', '2'), [3, 3, 2]);
    assert.deepEqual(await call('5'), [5, 1, 1]);
    await assert.rejects(call('1', 'x'));
    assert.deepEqual(await call('7'), [7, 1, 1]);
  });

  test('get their arguments as they are: text, numbers, any bytes', async () => {
    const library = functionLibrary([script('local given = ARGV\nreturn given')]);
    await flushFunctions();
    await commands().call('FUNCTION', 'LOAD', library.lua);
    const bytes = Buffer.from(Array.from({ length: 256 }, (_, i) => i));
    const args = [
      '',
      'plain',
      'na\u00efve \u20ac \u{1f600}',
      42,
      -1.5,
      bytes,
      new Packed(bytes.toString('latin1')),
    ];
    const call = new FunctionCall(library.functions.get('odd') ?? '', 'k\u00e9y', args);
    const expected = [...args.slice(0, 5).map((each) => Buffer.from(String(each))), bytes, bytes];
    assert.deepEqual(await commands().sendCommand(call), expected);
  });
});
