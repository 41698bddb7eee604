import assert from 'node:assert/strict';
import { test } from 'node:test';
import { hashTags, slotOf } from '../../src/store/tags.ts';

test('slots are those of Redis Cluster', () => {
  // The slots are those of CLUSTER KEYSLOT; 12739 (0x31c3) is the check value of CRC-16/XMODEM.
  assert.equal(slotOf('123456789'), 12_739);
  assert.equal(slotOf('foo'), 12_182);
  assert.equal(slotOf('bar'), 5061);
  assert.equal(slotOf(''), 0);
});

test('partitions lie evenly over two to eight masters', () => {
  for (const partitions of [4, 16, 64, 256]) {
    const slots = hashTags(partitions).map(slotOf);
    assert.equal(new Set(slots).size, partitions);
    for (let masters = 2; masters <= 8; masters++) {
      const counts = Array<number>(masters).fill(0);
      for (const slot of slots) {
        const master = Math.floor((slot * masters) / 16_384);
        counts[master] = (counts[master] ?? 0) + 1;
      }
      const spread = Math.max(...counts) - Math.min(...counts);
      assert.ok(spread <= 1, `${partitions} partitions on ${masters} masters: ${counts}`);
    }
  }
});
