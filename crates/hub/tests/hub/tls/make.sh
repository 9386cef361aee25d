#!/bin/sh
# Makes the certificates of the tests, for a hundred years: ca.pem signs hub.pem, whose key is hub.key.
set -eu
cd "$(dirname "$0")"
key() { openssl ecparam -name prime256v1 -genkey -noout | openssl pkcs8 -topk8 -nocrypt; }
key > ca.key
key > hub.key
openssl req -x509 -new -key ca.key -sha256 -days 36500 -subj "/CN=Pelton's tests" \
    -addext basicConstraints=critical,CA:TRUE -addext keyUsage=critical,keyCertSign -out ca.pem
openssl req -new -key hub.key -subj "/CN=hub.test" -out hub.csr
printf 'basicConstraints=CA:FALSE\nsubjectAltName=DNS:hub.test,DNS:localhost\n' > hub.ext
openssl x509 -req -in hub.csr -CA ca.pem -CAkey ca.key -CAcreateserial -sha256 -days 36500 \
    -extfile hub.ext -out hub.pem
rm -f ca.key ca.srl hub.csr hub.ext
