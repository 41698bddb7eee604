import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { keyspace, LAYOUT } from '../../src/store/keys.ts';
import { readScripts } from '../../src/store/script_source.ts';

describe('a key', () => {
  test('is as the layout spells it', () => {
    const keys = keyspace();
    assert.equal(keys.topics(), 'topics');
    assert.equal(keys.batch('vHFAAGBX0UExbPAKqIDl'), 'batch:vHFAAGBX0UExbPAKqIDl');
    assert.equal(keys.jobs_pending('main', 'w1'), 'jobs:pending:main:w1');
    assert.equal(keys.jobs_pending_index('aux'), 'jobs:pending:index:aux');
    assert.equal(keys.wakeChannel, 'wake');
  });

  test('has the prefix of its partition', () => {
    const keys = keyspace('{0}:');
    assert.equal(keys.schema(), '{0}:schema');
    assert.equal(keys.batches_current('alice'), '{0}:batches:current:alice');
    assert.equal(keys.wakeChannel, '{0}:wake');
  });

  test('is there for every entry of the layout, and none has the pattern of another', () => {
    const { wakeChannel, ...keys } = keyspace();
    assert.deepEqual(Object.keys(keys), Object.keys(LAYOUT));
    const patterns = Object.values(LAYOUT).map(({ pattern }) => pattern);
    assert.equal(new Set(patterns).size, patterns.length);
  });
});

describe('a script', () => {
  test('declares one key, which names its partition, and spells none itself', () => {
    for (const { name, keys, body } of readScripts()) {
      assert.deepEqual(keys, [{ pattern: 'schema', type: 'string' }], name);
      // How the fields of gaps begin, which are no keys.
      assert.doesNotMatch(body.replaceAll("'topic:'", ''), /KEYS|'[a-z_]+:/, name);
    }
  });

  test('has every include that it names', () => {
    for (const { name, lua } of readScripts()) assert.doesNotMatch(lua, /-- include:/, name);
  });

  test('has every function that it calls, and no other', () => {
    for (const { name, body } of readScripts()) {
      for (const [, called = ''] of body.matchAll(/^local function (\w+)/gm))
        assert.ok((body.match(new RegExp(`\\b${called}\\b`, 'g')) ?? []).length > 1, `${name}: ${called}`);
    }
  });

  test('runs without memory unless it stores what somebody sends', () => {
    const refused = readScripts().filter(({ flags }) => !flags.includes('allow-oom'));
    assert.deepEqual(
      refused.map(({ name }) => name),
      ['publish', 'revive', 'spend', 'subscribe'],
    );
  });
});
