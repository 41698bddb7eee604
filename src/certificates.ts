import { X509Certificate } from 'node:crypto';
import { readFileSync } from 'node:fs';

/**
 * Returns the PEM certificates in the value, or in the file that it names. Throws if there is none or one is
 * unreadable, since TLS would ignore an unreadable one silently.
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
