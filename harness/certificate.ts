import { execFileSync, spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

export const noOpenssl = spawnSync('openssl', ['version']).status !== 0 && 'openssl is not on PATH';

/** A certificate that nobody vouches for, for 127.0.0.1 or for what is named, such as `DNS:hooks.example`. */
export function selfSigned(subject = 'IP:127.0.0.1'): { key: string; cert: string } {
  const dir = mkdtempSync(join(tmpdir(), 'routemaster-tls-'));
  const [key, cert] = [join(dir, 'key.pem'), join(dir, 'cert.pem')];
  const made = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes', '-days', '2'];
  const name = ['-subj', '/CN=callback', '-addext', `subjectAltName=${subject}`];
  try {
    execFileSync('openssl', ['req', '-x509', ...made, ...name, '-keyout', key, '-out', cert], {
      stdio: 'ignore',
    });
    return { key: readFileSync(key, 'utf8'), cert: readFileSync(cert, 'utf8') };
  } finally {
    rmSync(dir, { recursive: true });
  }
}
