import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { textInTurns, textOf } from '../../src/http/body.ts';

const TEXT = '\ufeffa\u00e9\u20ac\u{1f600}\ufeffz';

const decoded = (chunks: Buffer[]) => textInTurns(chunks, async () => {});

describe('a body that is decoded in turns', () => {
  const bytes = Buffer.from(TEXT);

  test('is the same text, wherever its chunks are cut', async () => {
    for (let one = 0; one <= bytes.length; one++)
      for (let two = one; two <= bytes.length; two++) {
        const chunks = [bytes.subarray(0, one), bytes.subarray(one, two), bytes.subarray(two)];
        assert.equal(await decoded(chunks), TEXT);
      }
    assert.equal(await decoded([...bytes].map((byte) => Buffer.of(byte))), TEXT);
    assert.equal(await decoded([]), '');
  });

  test('is refused if it is not UTF-8, as when it is decoded at once', async () => {
    const wrong = [
      [0x80],
      [0xc3],
      [0xe2, 0x82],
      [0xf0, 0x9f, 0x98],
      [0xc3, 0x28],
      [0xff],
      [0xed, 0xa0, 0x80],
      [0xc0, 0x80],
      [0xe0, 0x80, 0x80],
      [0xf4, 0x90, 0x80, 0x80],
    ];
    for (const each of wrong) {
      const chunks = [Buffer.from('a'), Buffer.from(each)];
      assert.throws(() => textOf(chunks), { code: 'bad_body' });
      await assert.rejects(decoded(chunks), { code: 'bad_body' });
      await assert.rejects(decoded([...chunks, Buffer.from('a')]), { code: 'bad_body' });
    }
  });
});
