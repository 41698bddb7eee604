import { X509Certificate } from 'node:crypto';
import { readFileSync } from 'node:fs';

/**
 * Reads PEM certificates from the value itself or from the file that it names. Throws if there is none, or if one is
 * unreadable: TLS would silently ignore it, and every connection that relies on it would fail.
 */
export function readCertificates(value: string): string {
  const pem = value.includes('-----BEGIN') ? value : readFileSync(value, 'utf8');
  const certificates = pem
    .split(/(?=-----BEGIN )/)
    .filter((part) => /^-----BEGIN .*CERTIFICATE-----/.test(part));
  if (certificates.length === 0) throw new Error('there is no certificate');
  for (const each of certificates) new X509Certificate(each);
  return pem;
}
