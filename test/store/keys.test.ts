import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { keyspace, LAYOUT } from '../../src/store/keys.ts';
import { readScripts } from '../../src/store/script_source.ts';

const scripts = readScripts();
const files = [
  ...new Map(
    scripts.flatMap((script) => [script, ...script.modules]).map((file) => [file.path, file]),
  ).values(),
];

/** The functions that the loader calls. */
const BY_LOADER = new Set(['calls.run', 'calls.map', 'calls.part']);

describe('a key', () => {
  test('is spelled as in the layout', () => {
    const keys = keyspace();
    assert.equal(keys.topics(), 'topics');
    assert.equal(keys.batch('vHFAAGBX0UExbPAKqIDl'), 'batch:vHFAAGBX0UExbPAKqIDl');
    assert.equal(keys.jobs_pending('main', 'w1'), 'jobs:pending:main:w1');
    assert.equal(keys.jobs_pending_index('aux'), 'jobs:pending:index:aux');
    assert.equal(keys.wake('aux'), 'wake:aux');
  });

  test('has the prefix of its partition', () => {
    const keys = keyspace('{0}:');
    assert.equal(keys.schema(), '{0}:schema');
    assert.equal(keys.batches_current('alice'), '{0}:batches:current:alice');
    assert.equal(keys.wake('aux'), '{0}:wake:aux');
    assert.equal(keys.processes('web'), '{0}:wake:processes:web');
  });

  test('exists for every entry of the layout, and matches no other pattern', () => {
    const { wake, processes, ...keys } = keyspace();
    assert.deepEqual(Object.keys(keys), Object.keys(LAYOUT));
    const patterns = Object.values(LAYOUT).map(({ pattern }) => pattern);
    assert.equal(new Set(patterns).size, patterns.length);
  });
});

describe('a script', () => {
  test('spells no key itself', () => {
    for (const { path, text } of files) {
      // Fields of drop notices begin with `topic:` too, and are no keys.
      const code = text.replaceAll("'topic:'", '').replace(/--\[\[[\s\S]*?\]\]|--.*/g, '');
      assert.doesNotMatch(code, /\bKEYS\b|\bARGV\b|'[a-z_]+:/, path);
    }
  });

  test('uses every module that it includes, and every function of a module is used', () => {
    const all = files.map(({ text }) => text).join('\n');
    for (const { path, text } of files) {
      // A module of functions is used as `module.name`, a module that is a list as `unpack(LIST)`.
      for (const [, module = ''] of text.matchAll(/^local (\w+) = include/gm))
        assert.match(text, new RegExp(`\\b${module}(\\.|(?<=[A-Z])\\))`), `${path} includes ${module}`);
      for (const [, name = ''] of text.matchAll(/^function (?!check)([\w.]+)\(/gm))
        assert.ok(all.split(name).length > 2 || BY_LOADER.has(name), `${path}: ${name}`);
    }
  });

  test('is flagged `no-writes` if it changes nothing, so that it runs while Redis refuses writes', () => {
    for (const { path, text, flags } of scripts) {
      const isReading = /^--\[\[\n(?:.+\n)*?.*\. Changes nothing\.\n/.test(text);
      assert.equal(flags.includes('no-writes'), isReading, path);
    }
  });

  test('runs when memory is exhausted unless it stores data of a client', () => {
    const refused = scripts.filter(({ flags }) => !flags.includes('allow-oom'));
    assert.deepEqual(
      refused.map(({ name }) => name),
      [
        'apply_outbox',
        'claim_topics',
        'delay',
        'expire_keys',
        'fire_triggers',
        'give_topic',
        'join_events',
        'mark_topics',
        'note_seen',
        'publish',
        'publish_delayed',
        'put_join',
        'put_trigger',
        'receive_trigger',
        'register_client',
        'retry_bulk',
        'revive',
        'send_test',
        'spend',
        'subscribe',
      ],
    );
  });
});
