# Makes a small network: two network namespaces with a cable between them, and in the far one a host and a resolver that
# knows it. Then runs a command in the near one. Neither is connected to the machine's own network.
#
#   here: 203.0.113.1, the supervisor and its sandboxes      there: 203.0.113.10, host.js
#
# $1 is a directory with host.js, certs, resolv.conf, hosts and nsswitch.conf; the rest is the command.
set -e
PATH=$PATH:/usr/sbin:/sbin
dir=$1
shift
mkfifo "$dir/made" "$dir/wired" "$dir/listening"
ip link set lo up
unshare -n sh -c '
    echo > "$0/made"
    read -r _ < "$0/wired"
    ip link set lo up
    ip addr add 203.0.113.10/24 dev cable
    ip link set cable up
    exec node "$0/host.js" "$0"
' "$dir" &
host=$!
export host
trap 'kill $host' EXIT
read -r _ < "$dir/made"
ip link add name wire type veth peer name cable netns $host
ip addr add 203.0.113.1/24 dev wire
ip link set wire up
echo > "$dir/wired"
read -r _ < "$dir/listening"
for file in resolv.conf hosts nsswitch.conf; do
    mount --bind "$dir/$file" "/etc/$file"
done
# This network trusts only its own certificate authority.
mount --bind "$dir/certs" /etc/ssl/certs
"$@"
