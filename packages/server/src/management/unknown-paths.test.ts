import { errorResponse } from '@sluice/contract';
import { beforeAll, expect, test } from 'vitest';
import { type SharedApi, startSharedApi } from './api.fixture.ts';
import { ServedDocument } from './document.fixture.ts';

const METHODS = ['GET', 'HEAD', 'POST', 'PUT', 'DELETE', 'PATCH'];

let api: SharedApi;
let documented: string[];
beforeAll(async () => {
  api = await startSharedApi();
  documented = Object.keys((await ServedDocument.of(api)).content.paths);
  // Existing paths have no subpaths, either.
  await api.call('POST', '/api/v1/services', { name: 'x', address: 'h:7', serviceType: 'tool-invoker' });
  return () => api.close();
});

// Once implemented, they are in the document and no longer here.
test.for(['/plugins/a/index.js', '/api/plugins/a/b/c'])(
  '%s is not available yet: 404 for every method, and not in the document',
  async (path) => {
    for (const method of METHODS) {
      const answer = await api.call(method, path, method === 'GET' || method === 'HEAD' ? undefined : {});
      expect(answer.status, method).toBe(404);
      expect(answer.headers.allow).toBeUndefined();
      if (method === 'HEAD') continue;
      const message = `path not found: ${path}`;
      expect(errorResponse.parse(JSON.parse(answer.text))).toEqual({
        data: null,
        error: { code: 'NOT_FOUND', message },
      });
    }
    const matching = documented.filter((each) => new RegExp(`^${each.replaceAll(/\{\w+\}/g, '[^/]+')}$`).test(path));
    expect(matching).toEqual([]);
  },
);
