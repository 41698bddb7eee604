import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { textInSteps, textOf } from '../../src/http/body.ts';

const TEXT = 'a\u00e9\u20ac\u{1f600}\ufeffz';

function decoded(chunks: Buffer[]): string {
  const steps = textInSteps(chunks);
  for (;;) {
    const { done, value } = steps.next();
    if (done) return value;
  }
}

describe('a body that is decoded in steps', () => {
  const bytes = Buffer.from(TEXT);

  test('is the same text, wherever its chunks are cut', () => {
    for (let one = 0; one <= bytes.length; one++)
      for (let two = one; two <= bytes.length; two++) {
        const chunks = [bytes.subarray(0, one), bytes.subarray(one, two), bytes.subarray(two)];
        assert.equal(decoded(chunks), TEXT);
      }
    assert.equal(decoded([...bytes].map((byte) => Buffer.of(byte))), TEXT);
    assert.equal(decoded([]), '');
  });

  test('is refused if it is not UTF-8, as when it is decoded at once', () => {
    const wrong = [
      [0x80],
      [0xc3],
      [0xe2, 0x82],
      [0xf0, 0x9f, 0x98],
      [0xc3, 0x28],
      [0xff],
      [0xed, 0xa0, 0x80],
    ];
    for (const each of wrong) {
      const chunks = [Buffer.from('a'), Buffer.from(each)];
      assert.throws(() => textOf(chunks), { code: 'bad_body' });
      assert.throws(() => decoded(chunks), { code: 'bad_body' });
      assert.throws(() => decoded([...chunks, Buffer.from('a')]), { code: 'bad_body' });
    }
  });
});
