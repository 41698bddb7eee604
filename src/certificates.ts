import { X509Certificate } from 'node:crypto';
import { readFileSync } from 'node:fs';

/**
 * Certificates in PEM, given as they are or as the path of a file of them. Throws unless there is one, and each can be read:
 * TLS itself would pass over what it cannot read in silence, and trust nobody by it.
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
