import { browserPrograms } from './fixtures/browser.ts';
import { curlPrograms } from './fixtures/curl.ts';
import { installDebianPackages } from './fixtures/debian-packages.ts';
import { imagePrograms, systemdPrograms } from './fixtures/deploy-programs.ts';
import { prometheusPrograms } from './fixtures/prometheus.ts';
import { pythonPrograms } from './fixtures/python-capability.ts';
import { reverseProxyPrograms } from './operations/reverse-proxies.ts';

/** Runs once before the slow tests: the one place where Debian packages are installed. */
export default () =>
  installDebianPackages([
    browserPrograms,
    curlPrograms,
    imagePrograms,
    prometheusPrograms,
    pythonPrograms,
    systemdPrograms,
    ...reverseProxyPrograms,
  ]);
