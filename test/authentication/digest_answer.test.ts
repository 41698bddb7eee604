import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { describe, test } from 'node:test';
import { expectedResponse, readAnswer } from '../../src/authentication/digest_answer.ts';
import { BusError } from '../../src/errors.ts';

/** The example of RFC 7616, section 3.9.1. */
const rfc = `username="Mufasa", realm="http-auth@example.org", uri="/dir/index.html", algorithm=SHA-256,
  nonce="7ypf/xlj9XXwfDPEoM4URrv/xwf94BcCAzFZH4GiTo0v", nc=00000001,
  cnonce="f2/wE4q74E6zIJEtWaHKaf5wv/H5QzzpXusqGemxURZJ", qop=auth,
  response="753927fa0e85d155564e2e272a28d1802ca10daf4496794697cf8db5856cb6c1",
  opaque="FQhe/qaU925kfnzjCev0ciny7QMkPqMAFRtzCUYo5tdS"`.replaceAll('\n', '');

const without = (name: string) =>
  rfc.replace(new RegExp(`${name.replace('*', '\\*')}=(?:"[^"]*"|\\w+),? *`), '');
const refused = (text: string, message: RegExp) =>
  assert.throws(
    () => readAnswer(text),
    (error: unknown) => {
      assert.ok(error instanceof BusError);
      assert.equal(error.code, 'bad_header');
      assert.match(error.message, message);
      return true;
    },
  );

describe('the response of a Digest', () => {
  const ha1 = (hash: string) =>
    createHash(hash).update('Mufasa:http-auth@example.org:Circle of Life').digest('hex');
  const answer = readAnswer(rfc);

  test('equals the example of RFC 7616 for SHA-256', () => {
    assert.equal(expectedResponse('SHA-256', ha1('sha256'), 'GET', answer), answer.response);
  });

  test('equals the example of RFC 7616 for MD5', () => {
    assert.equal(expectedResponse('MD5', ha1('md5'), 'GET', answer), '8ca523f5e9506fed4657c9700eebdbec');
  });

  test('covers the bytes as they were sent', () => {
    const bytes = Buffer.from('/caf\u00e9', 'utf8');
    const digest = (text: Buffer | string) => createHash('md5').update(text).digest('hex');
    const ha2 = digest(Buffer.concat([Buffer.from('GET:'), bytes]));
    const { nonce, nc, cnonce } = answer;
    assert.equal(
      expectedResponse('MD5', ha1('md5'), 'GET', { ...answer, uri: bytes.toString('latin1') }),
      digest(`${ha1('md5')}:${nonce}:${nc}:${cnonce}:auth:${ha2}`),
    );
  });
});

describe('an answer to a Digest challenge', () => {
  test('is read with every part of the response', () => {
    assert.deepEqual(readAnswer(rfc), {
      username: 'Mufasa',
      realm: 'http-auth@example.org',
      nonce: '7ypf/xlj9XXwfDPEoM4URrv/xwf94BcCAzFZH4GiTo0v',
      uri: '/dir/index.html',
      algorithm: 'SHA-256',
      nc: '00000001',
      cnonce: 'f2/wE4q74E6zIJEtWaHKaf5wv/H5QzzpXusqGemxURZJ',
      response: '753927fa0e85d155564e2e272a28d1802ca10daf4496794697cf8db5856cb6c1',
    });
  });

  test('is MD5 when it names no algorithm; the name may be quoted and in any case', () => {
    assert.equal(readAnswer(without('algorithm').replace('-256,', '')).algorithm, 'MD5');
    assert.equal(readAnswer(rfc.replace('algorithm=SHA-256', 'algorithm="sha-256"')).algorithm, 'SHA-256');
  });

  test('must have every required parameter', () => {
    for (const name of ['username', 'realm', 'nonce', 'uri', 'nc', 'cnonce', 'qop', 'response']) {
      refused(without(name), new RegExp(`Digest parameter ${name} must be`));
    }
    refused(`${without('username')}, username*=UTF-8''Mufasa`, /Digest parameter username must be there/);
  });

  test('must have qop=auth, eight digits of nc, and a response in hex', () => {
    for (const qop of ['auth-int', 'AUTH', '""'])
      refused(rfc.replace('qop=auth', `qop=${qop}`), /qop must be auth/);
    for (const nc of ['1', '000000001', '0000000g'])
      refused(rfc.replace('nc=00000001', `nc=${nc}`), /nc must be/);
    for (const response of ['', 'xyz', 'ab'.repeat(33)]) {
      refused(rfc.replace(/response="\w+"/, `response="${response}"`), /response must be/);
    }
    refused(rfc.replace(/cnonce="[^"]+"/, 'cnonce=""'), /cnonce/);
  });
});
