import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { keyOf } from '../../../src/flow/joins/join_key.ts';
import { parseJson } from '../../../src/json.ts';

const url = 'https://shop.example.com/orders/17';
const keyIn = (data: string, by: string) => keyOf({ url, data: parseJson(data) }, by);

describe('the key of an event', () => {
  const found: [what: string, data: string, by: string, key: string][] = [
    ['is its URL', '{}', 'url', url],
    ['is a text of its data', '{"order":"A-1"}', 'data.order', 'A-1'],
    ['is a number of its data', '{"order":17}', 'data.order', '17'],
    [
      'is a number of 64 bits, with all its digits',
      '{"order":18446744073709551615}',
      'data.order',
      '18446744073709551615',
    ],
    ['is a fraction as JavaScript writes it', '{"order":1.50}', 'data.order', '1.5'],
    ['is in an object in its data', '{"order":{"buyer":{"id":7}}}', 'data.order.buyer.id', '7'],
    ['is in an array in its data', '{"orders":[{"id":"x"},{"id":"y"}]}', 'data.orders.1.id', 'y'],
    ['has 256 bytes at most', `{"order":"${'é'.repeat(128)}"}`, 'data.order', 'é'.repeat(128)],
    ['may have the name of what every object has', '{"constructor":"x"}', 'data.constructor', 'x'],
  ];
  for (const [what, data, by, key] of found) test(what, () => assert.equal(keyIn(data, by), key));

  const missing: [what: string, data: string, by: string][] = [
    ['if it has no data', 'null', 'data.order'],
    ['if its data has no such member', '{"orders":1}', 'data.order'],
    ['if that is neither text nor number', '{"order":{"id":1}}', 'data.order'],
    ['if that is true', '{"order":true}', 'data.order'],
    ['if that is null', '{"order":null}', 'data.order'],
    ['if that is empty', '{"order":""}', 'data.order'],
    ['if that is longer than 256 bytes', `{"order":"${'é'.repeat(129)}"}`, 'data.order'],
    ['if the path goes through a text', '{"order":"abc"}', 'data.order.length'],
    ['if the path goes through a long number', '{"order":18446744073709551615}', 'data.order.rawJSON'],
    ['if only every object has it', '{}', 'data.constructor.name'],
    ['if only every array has it', '{"orders":[1,2]}', 'data.orders.length'],
    ['if its data is a text', '"abc"', 'data.0'],
  ];
  for (const [what, data, by] of missing)
    test(`is missing ${what}`, () => assert.equal(keyIn(data, by), undefined));
});
