import assert from 'node:assert/strict';
import { beforeEach, describe, test } from 'node:test';
import { TestStore } from '../../harness/redis/store.ts';
import {
  type Contract,
  readerOf,
  type ScriptArgument,
  type ScriptReply,
  writerOf,
} from '../../src/store/contract.ts';
import { DECLARED_KEY } from '../../src/store/keys.ts';
import { readScripts, standalone } from '../../src/store/script_source.ts';

const redis = new TestStore();
const modules = readScripts()[0]?.modules.filter(({ name }) => name === 'store/calls') ?? [];

/** Runs the Lua text of a script that has this contract. */
async function run(contract: Contract, text: string, args: unknown): Promise<unknown> {
  const list: ScriptArgument[] = [];
  writerOf(contract.arguments)(args as never, list);
  const lua = standalone({ name: 'odd', path: 'lua/odd.lua', text, contract, flags: [], modules });
  const values = list.map((each) => (typeof each === 'object' ? String(each) : each));
  const reply = (await redis.store.redis.callBuffer('EVAL', lua, 1, DECLARED_KEY, ...values)) as ScriptReply;
  return readerOf(contract.reply)(reply);
}

beforeEach(() => redis.flush());

describe('a contract', () => {
  const point = { name: 'text', x: 'number', label: 'text?', isOpen: 'flag', marks: ['number'] } as const;
  const points = [
    { name: 'a', x: 1, label: 'one', isOpen: true, marks: [1, 2, 3] },
    { name: '', x: -2, label: undefined, isOpen: false, marks: [] },
  ];

  test('carries any record to Lua and back', async () => {
    const contract: Contract = {
      arguments: { points: [point], last: 'digits' },
      reply: { last: 'number', points: [point] },
    };
    const reply = await run(contract, 'return function(call, args) return args end\n', { last: 7, points });
    assert.deepEqual(reply, { last: 7, points });
  });

  test('gives Lua names in snake case, numbers as numbers, digits as text, and nil for missing values', async () => {
    const contract = {
      arguments: { timeoutMs: 'number', lease: 'digits', whatElse: 'text?', isDue: 'flag' },
      reply: ['text'],
    } as const;
    const text = `return function(call, args)
      return { type(args.timeout_ms), type(args.lease), type(args.what_else), tostring(args.is_due) }
    end\n`;
    const reply = await run(contract, text, { timeoutMs: 5, lease: 12, isDue: false });
    assert.deepEqual(reply, ['number', 'string', 'nil', 'false']);
  });

  test('carries lists of any length', async () => {
    const shape = [{ name: 'text', items: ['bytes'] }] as const;
    const contract = { arguments: { groups: shape }, reply: [{ name: 'text', items: ['text'] }] } as const;
    const groups = [0, 1, 2, 4000, 4001, 9000].map((length) => ({
      name: `${length} items`,
      items: Array.from({ length }, (_, i) => `${i}`),
    }));
    const text = 'return function(call, args) return args.groups end\n';
    assert.deepEqual(await run(contract, text, { groups }), groups);
  });

  test('refuses a reply of another shape', async () => {
    const refuse = (reply: Contract['reply'], lua: string) =>
      assert.rejects(run({ arguments: {}, reply }, `return function() return ${lua} end\n`, {}), TypeError);
    await refuse('ok|not_found', "'something_else'");
    await refuse('number', "'no number'");
    await refuse(['text'], "'no list'");
    await refuse('text', '{}');
    await refuse({ a: 'number' }, '{}');
  });
});
