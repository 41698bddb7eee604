import type { Contract } from '../contract.ts';

const SCOPES = [{ of: 'publish|subscribe', patterns: 'text' }] as const;

export const authenticationContracts = {
  begin_session: {
    arguments: { owner: 'text', digest: 'text', session: 'text', lifetimeMs: 'number', max: 'number' },
    reply: 'flag',
  },
  known_clients: {
    arguments: { tokens: ['text'] },
    reply: [{ name: 'text?', publish: 'text?', subscribe: 'text?' }],
  },
  name_key: { arguments: { key: 'bytes' }, reply: 'bytes' },
  nonce_keys: {
    arguments: { keyOfThisHour: 'bytes', keyOfNextHour: 'bytes' },
    reply: { nowMs: 'number', keys: [{ hour: 'number', key: 'bytes', replaced: 'flag' }] },
  },
  nonce_uses: {
    arguments: {
      keptMs: 'number',
      aheadMs: 'number',
      maxClientNonces: 'number',
      uses: [{ nonce: 'text', count: 'number', issuedAtMs: 'number', key: 'bytes', client: 'text' }],
    },
    reply: ['consumed|repeated|replaced|expired|old|too_many_nonces|unreadable'],
  },
  note_seen: {
    arguments: { tokens: ['text'] },
    reply: 'flag',
  },
  register_client: {
    arguments: { token: 'text', name: 'text', keepsName: 'flag', scopes: SCOPES },
    reply: { outcome: 'ok|has_secret|client_not_found', name: 'text?', ended: ['text'] },
  },
  remove_client: {
    arguments: { token: 'text' },
    reply: 'flag',
  },
  rotate_secret: {
    arguments: { token: 'text', ha1Sha256: 'text', ha1Md5: 'text', graceMs: 'digits', secretAt: 'digits?' },
    reply: 'ok|client_not_found|no_secret|replaced_meanwhile',
  },
} as const satisfies Record<string, Contract>;
