import assert from 'node:assert/strict';
import { test } from 'node:test';
import { threadCpuSince } from '../harness/thread_cpu.ts';
import { canParseUrl, parseUrl } from '../src/urls.ts';

/** Different Chinese characters, which take longest to read in the name of a host. */
const chinese = (count: number) =>
  String.fromCharCode(...Array.from({ length: count }, (_, n) => 0x4e00 + ((n * 7919) % 20_000)));

test('URLs are read as by URL.parse, also long ones', () => {
  for (const text of [
    'https://user:p@ss@example.com:8443/a?b#c',
    `https://${'a'.repeat(64)}.example.com/`,
    `https://${chinese(15)}.${chinese(15)}.example.com/${chinese(900)}?${chinese(900)}`,
    `https://${encodeURIComponent(chinese(15))}.example.com`,
    `https://${chinese(900)}:${chinese(90)}@example.com/`,
    'https:example.com',
    'mailto:a@example.com',
    '/path',
    '',
  ]) {
    assert.equal(parseUrl(text)?.href, URL.parse(text)?.href);
    assert.equal(canParseUrl(text), URL.canParse(text));
    assert.equal(parseUrl(text, 'https://bus')?.href, URL.parse(text, 'https://bus')?.href);
  }
});

test('a host that would take long to read is not read, however the URL begins', () => {
  for (const host of [
    chinese(5000),
    `a.${chinese(64)}.b`,
    encodeURIComponent(chinese(1600)),
    `%41${'b'.repeat(63)}`,
  ])
    for (const before of [
      'https://',
      'https:',
      'HT\ttps:/\n\\',
      ' \0https://',
      '//',
      ' //',
      '\t/\\',
      'https://a@b@',
    ]) {
      const cpuMs = threadCpuSince();
      assert.equal(parseUrl(before + host, 'https://bus'), null);
      assert.equal(canParseUrl(before + host), false);
      assert.ok(cpuMs() < 10);
    }
});
