/**
 * Self-signed certificate for `localhost`, without IP addresses, and its key. It protects nothing: tests use it for TLS
 * on loopback. Valid for a hundred years.
 */
export const localhostCertificate = {
  cert: `-----BEGIN CERTIFICATE-----
MIIBlDCCATugAwIBAgIULvnNOqd5WehA8PoLGWfIIBF2+00wCgYIKoZIzj0EAwIw
FDESMBAGA1UEAwwJbG9jYWxob3N0MCAXDTI2MTEyMDEyMzcwNVoYDzIxMjYxMDI3
MTIzNzA1WjAUMRIwEAYDVQQDDAlsb2NhbGhvc3QwWTATBgcqhkjOPQIBBggqhkjO
PQMBBwNCAAQbE2NFy2w/Mv4QPxmRcCillE9EQ5oRnFk2slKV0tvWd2q5gEs9yI/w
sI9DzvLbWiO+Qouei2L6m1LMcsSG5xF8o2kwZzAdBgNVHQ4EFgQUrfbINw2JFAGb
dgDcXsrmYbQwDuwwHwYDVR0jBBgwFoAUrfbINw2JFAGbdgDcXsrmYbQwDuwwDwYD
VR0TAQH/BAUwAwEB/zAUBgNVHREEDTALgglsb2NhbGhvc3QwCgYIKoZIzj0EAwID
RwAwRAIgCvWlhHbMPSVrUgMz8VRZgglCPVQ4S0x/wrYaccB5YJECIEP+vpi4E9lt
vTXNKHBCppFVT6mT1tMT7IjSZHckAsyC
-----END CERTIFICATE-----
`,
  key: `-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgIlzTjtn45T+UVMep
kIn8jrsoKjoE67EOIAVhvFEi9lahRANCAAQbE2NFy2w/Mv4QPxmRcCillE9EQ5oR
nFk2slKV0tvWd2q5gEs9yI/wsI9DzvLbWiO+Qouei2L6m1LMcsSG5xF8
-----END PRIVATE KEY-----
`,
};
