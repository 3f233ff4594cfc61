import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { brotliCompress, constants, gzip } from 'node:zlib';
import react from '@vitejs/plugin-react';
import { defineConfig, type Plugin } from 'vite';

/** Service that `npm run dev` sends API requests to. */
const SERVICE = process.env.SLUICE_HOST ?? 'http://localhost:8080';

/** Writes compressed copies of text files beside them: the service does not compress. */
function compressedCopies(): Plugin {
  const toBrotli = promisify(brotliCompress);
  const toGzip = promisify(gzip);
  const params = { [constants.BROTLI_PARAM_QUALITY]: 9 };
  return {
    name: 'compressed-copies',
    apply: 'build',
    async writeBundle({ dir = '' }, bundle) {
      const texts = Object.keys(bundle).filter((name) => /\.(?:js|css|svg)$/.test(name));
      await Promise.all(
        texts.map(async (name) => {
          const path = join(dir, name);
          const content = await readFile(path);
          const [br, gz] = await Promise.all([toBrotli(content, { params }), toGzip(content)]);
          await Promise.all([writeFile(`${path}.br`, br), writeFile(`${path}.gz`, gz)]);
        }),
      );
    },
  };
}

// URLs are relative, since a proxy may serve the console under a path of its own. Nothing is inlined: the content
// security policy allows only files of the service.
export default defineConfig({
  root: import.meta.dirname,
  base: './',
  plugins: [react(), compressedCopies()],
  build: {
    target: 'es2024',
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    chunkSizeWarningLimit: 2000,
    reportCompressedSize: false,
    // A failed build leaves the previous files in place.
    emptyOutDir: true,
    // The notices of the bundled packages.
    license: { fileName: 'licenses.md' },
  },
  css: { preprocessorOptions: { scss: { quietDeps: true } } },
  server: { proxy: { '/api': SERVICE, '/plugins': SERVICE, '/openapi.json': SERVICE } },
});
