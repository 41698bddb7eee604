export const BID = 'A96w5uKHOM8kSsHw----';
export const SHOP = 'shop--psbsfvxhjewnxiczhqc0';
export const BILLING = 'billing--0u7hfgkz3dq2p6xrwm5e';
export const URL = 'https://shop.example.com/products/1';

export const DELIVERED_EVENT = {
  id: 'V1StGXR8_Z5jdHi6',
  topic: 'products',
  type: 'update',
  url: URL,
  t: 1_795_171_531_417,
};

/** Says how a listing is paged. */
export const HOW_PAGED =
  'Everything at once, unless `limit` asks for pages. The header `Link` leads to the next one.';
